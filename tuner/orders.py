"""Orders: every single request of a workload, ready to be sent. Pure.

Each carries a tag at the very front of its prompt that is unique to the run, cell, round and stream: no prefix of one request
can be found in a cache that another one filled.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tuner.filler import fill
from tuner.workload import BURST, SENTINEL, WARM_UP, Cell, Workload, asked

Place = tuple[str, int, int]
"""Cell, round and stream: where a request stands in a bench."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One request to be sent; `text` is the whole prompt with its tag. Rounds and streams count from 0."""

    cell: str
    round: int
    stream: int
    prompt: str
    tag: str
    text: str
    max_tokens: int


def warm_up(workload: Workload, run_tag: str) -> Iterator[Order]:
    """Yield the requests of the warm-up, one after the other, as many as it may take."""
    if workload.warm_up:
        for number in range(workload.warm_up.most):
            yield _decode(workload, workload.warm_up.prompt, (WARM_UP, number, 0), run_tag)


def burst(workload: Workload, run_tag: str) -> tuple[Order, ...]:
    """Return the round at the highest concurrency that any decode cell has; none where the workload wants none."""
    if not workload.burst:
        return ()
    widest = max((cell for cell in workload.cells if cell.prompts), key=lambda cell: cell.concurrency)
    return tuple(
        _decode(workload, _prompt(widest, 0, stream), (BURST, 0, stream), run_tag)
        for stream in range(widest.concurrency)
    )


def sentinel(workload: Workload, number: int, run_tag: str) -> tuple[Order, ...]:
    """Return the question that is asked alone before cell `number`, after the last cell likewise; none where none is named."""
    if workload.sentinel is None:
        return ()
    return (_decode(workload, workload.sentinel, (SENTINEL, number, 0), run_tag),)


def rounds(workload: Workload, cell: Cell, run_tag: str) -> Iterator[tuple[Order, ...]]:
    """Yield the orders of a cell that are released together, round by round."""
    for number in range(cell.rounds):
        yield tuple(
            _order(workload, cell, (cell.name, number, stream), run_tag) for stream in range(cell.concurrency)
        )


def _order(workload: Workload, cell: Cell, place: Place, run_tag: str) -> Order:
    if cell.prompt_tokens is None:
        return _decode(workload, _prompt(cell, place[1], place[2]), place, run_tag)
    text = fill(workload.filler, _tag(run_tag, place), cell.prompt_tokens)
    return _placed(place, run_tag, prompt="filler", text=text, max_tokens=1)


def _prompt(cell: Cell, number: int, stream: int) -> str:
    turn = number if cell.deal == "rounds" else number * cell.concurrency + stream
    return cell.prompts[turn % len(cell.prompts)]


def _decode(workload: Workload, wanted: str, place: Place, run_tag: str) -> Order:
    prompt = asked(workload)[wanted]
    return _placed(place, run_tag, prompt=prompt.id, text=prompt.text, max_tokens=prompt.max_tokens)


def _placed(place: Place, run_tag: str, *, prompt: str, text: str, max_tokens: int) -> Order:
    tag = _tag(run_tag, place)
    cell, number, stream = place
    return Order(
        cell=cell,
        round=number,
        stream=stream,
        prompt=prompt,
        tag=tag,
        text=f"{tag} {text}",
        max_tokens=max_tokens,
    )


def _tag(run_tag: str, place: Place) -> str:
    cell, number, stream = place
    return f"[{run_tag} {cell} r{number} s{stream}]"
