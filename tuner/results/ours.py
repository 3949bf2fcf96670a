"""Ours: the figures of a bench that `sparkctl bench -o` wrote, in the shape of all others. Pure."""

from tuner.results.fields import at, count, items, number, text
from tuner.results.figures import Figures, Load, Prefill, Timed


def figures(raw: object) -> Figures:
    """Read the requests of a bench as loads, one a round of a decode cell, and prefills.

    Raises:
        ValueError: a key is not what it should be.

    """
    cells = items(at(raw, "workload"), "cells")
    requests = tuple(one for one in items(raw, "requests") if not text(one, "fault"))
    loads = (
        _load(cell, turn, requests)
        for cell in cells
        if text(cell, "kind") == "decode"
        for turn in range(count(cell, "rounds") or 0)
    )
    prefills = (
        _prefill(one)
        for cell in cells
        if text(cell, "kind") == "prefill"
        for one in requests
        if text(one, "cell") == text(cell, "name") and number(one, "total_s")
    )
    return Figures(
        tool="sparkctl", loads=tuple(load for load in loads if load.requests), prefills=tuple(prefills)
    )


def _load(cell: object, turn: int, requests: tuple[object, ...]) -> Load:
    own = [one for one in requests if text(one, "cell") == text(cell, "name") and count(one, "round") == turn]
    return Load(
        streams=count(cell, "concurrency") or 0,
        category=f"{text(cell, 'name')} round {turn + 1}",
        requests=tuple(
            Timed(
                tokens=count(one, "completion_tokens") or 0,
                prompt_tokens=count(one, "prompt_tokens"),
                ttft_s=number(one, "ttft_s"),
                total_s=number(one, "total_s"),
                characters=len(text(one, "text")),
            )
            for one in own
        ),
    )


def _prefill(request: object) -> Prefill:
    tokens, seconds = count(request, "prompt_tokens") or 0, number(request, "total_s") or 0.0
    return Prefill(tokens=tokens, tok_s=tokens / seconds, seconds=seconds)
