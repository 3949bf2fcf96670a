"""v41bench: the prompt files and the results of the bench that owners of GB10 nodes publish with. Pure; shapes, no code of theirs.

A prompt file becomes a workload, a result becomes figures, and a bench of ours is written in the shape of a result. Two things
differ on purpose when its prompts are sent by us: the tags are unique to each run (its own are the same in every run, so a second
run on a warm engine reads its prefills from the cache), and a reply ends with its last token, not with the end of the stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from tuner.metrics import acceptance
from tuner.rates import aggregate_rate, decoded, prefill_rate
from tuner.request import Bench, Request
from tuner.results.fields import count, items, needed, needed_count, number, text
from tuner.results.figures import COUNTING, Figures, Load, Prefill, Timed
from tuner.workload import Cell, asked

LEVELS = (1, 2, 3, 4, 5, 6)
PREFILLS = (2950, 11_592, 46_810, 93_335)
"""Prompt tokens that its targets of 2000, 8000, 32000 and 64000 come to (reported, tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark)."""

_LEAST_ANSWERED = 0.1
"""Its questions end by themselves: published replies stop at 70 % of max_tokens and below. Ours."""

_NAMES = {2950: "3k", 11_592: "12k", 46_810: "47k", 93_335: "93k"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question of a prompt file."""

    name: str
    prompt: str
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FillerWords:
    """What its prefills are made of."""

    words: tuple[str, ...]
    seed_rule: str = ""
    words_per_target_token: float = 0.55


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """A prompt file, as `v41bench.py --dump-prompts` writes it."""

    version: str
    temperature: int | float
    thinking: bool
    categories: tuple[Asked, ...]
    ceiling: Asked
    prefill_filler: FillerWords


def is_prompts(raw: object) -> bool:
    """Whether a document is a prompt file of v41bench."""
    return isinstance(raw, Mapping) and {"version", "categories", "ceiling"} <= raw.keys()


def workload(told: Prompts) -> Mapping[str, Any]:
    """Return the workload that a prompt file means, as plain data: its levels, its categories, its four prefills."""
    names = [one.name for one in told.categories]
    return {
        "schema": 1,
        "name": f"v41bench-{told.version}",
        "source": "a prompt file of v41bench; its version says little, the digest says which",
        "limit_s": 900,
        "warm_up": {"prompt": names[0]} if names else None,
        "burst": True,
        "sentinel": names[0] if names else None,
        "body": {"temperature": told.temperature, "chat_template_kwargs": {"thinking": told.thinking}},
        "prompts": [_prompt(one) for one in (*told.categories, told.ceiling)],
        "cells": [
            *(cell for level in LEVELS for cell in _cells(level, names, told.ceiling.name)),
            *map(_prefill, PREFILLS),
        ],
        "filler": {
            "text": " ".join(told.prefill_filler.words),
            "unit": "words",
            # Each of its items is a word with up to three digits, about 1.47 tokens to a target token.
            "characters_a_token": 3.3,
        },
    }


def _prompt(one: Asked) -> Mapping[str, Any]:
    return {
        "id": one.name,
        "category": one.name,
        "text": one.prompt,
        "max_tokens": one.max_tokens,
        "least_answered": _LEAST_ANSWERED,
    }


def _cells(level: int, names: list[str], ceiling: str) -> Iterator[Mapping[str, Any]]:
    shared = {"kind": "decode", "concurrency": level, "deal": "rounds"}
    metrics = {
        f"c{level}_per_stream_tok_s": "per_stream",
        f"c{level}_agg_tok_s": "aggregate",
        f"c{level}_ttft_s": "ttft",
    }
    yield {"name": f"c{level}", "rounds": max(1, len(names)), "prompts": names, "metrics": metrics, **shared}
    counting = {f"c{level}_counting_tok_s": "per_stream"}
    yield {"name": f"c{level}_counting", "rounds": 1, "prompts": [ceiling], "metrics": counting, **shared}


def _prefill(tokens: int) -> Mapping[str, Any]:
    name = f"prefill_{_NAMES[tokens]}"
    metrics = {f"{name}_tok_s": "prefill"}
    return {
        "name": name,
        "kind": "prefill",
        "concurrency": 1,
        "rounds": 1,
        "prompt_tokens": tokens,
        "metrics": metrics,
    }


def read(raw: object) -> Figures:
    """Read a result.

    Raises:
        ValueError: a batch or a prefill lacks what its kind must say.

    """
    return Figures(
        tool="v41bench",
        loads=tuple(map(_load, items(raw, "batches"))),
        prefills=tuple(
            Prefill(
                tokens=needed_count(one, "prompt_tokens"),
                tok_s=needed(one, "prefill_tok_s"),
                seconds=number(one, "ttft_s"),
            )
            for one in items(raw, "prefill")
        ),
    )


def _load(batch: object) -> Load:
    return Load(
        streams=needed_count(batch, "c"),
        category=text(batch, "category"),
        per_stream=number(batch, "per_stream_tok_s"),
        aggregate=number(batch, "agg_tok_s"),
        ttft_s=number(batch, "ttft_mean_s"),
        wall_s=number(batch, "wall_s"),
        requests=tuple(
            Timed(
                tokens=needed_count(one, "completion_tokens"),
                prompt_tokens=count(one, "prompt_tokens"),
                ttft_s=number(one, "ttft_s"),
                total_s=number(one, "total_s"),
                rate=number(one, "decode_tok_s"),
                characters=count(one, "chars"),
            )
            for one in items(batch, "requests")
        ),
    )


def document(bench: Bench, *, label: str, model: str) -> Mapping[str, Any]:
    """Write a bench as a v41bench result, so that it can be laid beside published ones.

    Cells whose streams have questions of several kinds are one batch a round, of the category `mixed`. `prompt_set` is the digest:
    two sets that call themselves v1 are in use.
    """
    batches = [
        _batch(bench, cell, together)
        for cell in bench.workload.cells
        if cell.kind == "decode"
        for together in _rounds(bench.of(cell.name))
    ]
    prefills = [
        {
            "target": cell.prompt_tokens,
            "prompt_tokens": one.prompt_tokens,
            "ttft_s": round(one.total_s, 3),
            "prefill_tok_s": round(prefill_rate(one), 1) if one.total_s else None,
        }
        for cell in bench.workload.cells
        if cell.kind == "prefill"
        for one in bench.of(cell.name)
    ]
    return {
        "label": label,
        "prompt_set": f"{bench.workload.name} {bench.workload_digest[:12]}",
        "model": model,
        "notes": "written by sparkctl; seconds are those of the last token, not of the end of the stream",
        "started": bench.started,
        "finished": _later(bench.started, bench.seconds),
        "batches": batches,
        "prefill": prefills,
        "headline": [_headline(level, batches) for level in dict.fromkeys(one["c"] for one in batches)],
        "acceptance": {
            cell.name: acceptance(bench, cell) for cell in bench.workload.cells if cell.kind == "decode"
        },
    }


def _headline(level: int, batches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the plain means over a level's batches, as it makes them: counting, which flatters speculation, is left out."""
    own = [one for one in batches if one["c"] == level and one["category"] != COUNTING]
    means = {
        key: [one[key] for one in own if one[key] is not None]
        for key in ("agg_tok_s", "per_stream_tok_s", "ttft_mean_s")
    }
    return {"level": level} | {key: round(fmean(told), 3) if told else None for key, told in means.items()}


def _later(started: str, seconds: float) -> str:
    moment = datetime.fromisoformat(started) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _rounds(requests: tuple[Request, ...]) -> Iterator[tuple[Request, ...]]:
    for turn in dict.fromkeys(one.round for one in requests):
        yield tuple(one for one in requests if one.round == turn)


def _batch(bench: Bench, cell: Cell, together: tuple[Request, ...]) -> Mapping[str, Any]:
    prompts = asked(bench.workload)
    kinds = {prompts[one.prompt].category for one in together}
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    rates = [rate for one in together if (rate := decoded(one)) is not None]
    tokens = sum(one.completion_tokens or 0 for one in together)
    aggregate = aggregate_rate(together) if tokens else 0.0
    return {
        "c": cell.concurrency,
        "category": COUNTING if kind in {"counting", COUNTING} else kind,
        "wall_s": round(tokens / aggregate, 3) if aggregate else None,
        "tokens": tokens,
        "agg_tok_s": round(aggregate, 2),
        "per_stream_tok_s": round(sum(rates) / len(rates), 2) if rates else None,
        "ttft_mean_s": round(sum(one.ttft_s for one in together) / len(together), 3),
        "requests": [
            {
                "ttft_s": one.ttft_s,
                "total_s": one.total_s,
                "completion_tokens": one.completion_tokens,
                "prompt_tokens": one.prompt_tokens,
                "decode_tok_s": decoded(one),
                "chars": len(one.text),
            }
            for one in together
        ],
    }
