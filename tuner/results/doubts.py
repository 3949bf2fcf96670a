"""Doubts: what in a result's own numbers cannot be. Pure.

No text is needed: rates are reckoned again from tokens and seconds, prompts of different lengths are held against each other, and
what did not end well is counted. A doubt is no proof of bad faith; each of these was published by somebody who believed it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from tuner.results.figures import Figures, Load, Prefill, Timed

Kind = Literal["cached_prefill", "rate", "aggregate", "no_output", "failed", "unfinished", "same_file"]

MOST_PREFILL_RATIO = 3.0
"""Rate of one prefill over the median of the others. Ours: cold prefills of 3K to 93K tokens lie within a factor of 1.3 of each other
(1,142 to 1,406 tok/s, reported, bot-lab-21's model card), one from the cache reads 30 to 80 times faster
(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, runs/2026-09-19-speedrun2, s2-final)."""

MOST_AGGREGATE_APART = 0.03
"""Share by which an aggregate may differ from tokens over seconds. Ours: rounding and the end of the stream stay below."""

MOST_TOKENS_A_CHUNK = 1.5
"""Rate by tokens over the rate that is given. Ours: above, chunks were counted as tokens, of which speculation puts two to six into
one; below lie other ways to say where a stream ends."""

LEAST_PREFILL_SHARE = 0.1
"""Share of the time per token of a short prompt below which a long one was not read. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One number that cannot be what it says, and where it stands."""

    kind: Kind
    where: str
    measured: str
    wanted: str


def doubts(figures: Figures) -> tuple[Doubt, ...]:
    """Return every doubt, in the order of the result."""
    return (
        *_of_totals(figures),
        *(doubt for load in figures.loads for doubt in _of_load(load)),
        *_of_prefills(figures.prefills),
    )


def _of_totals(figures: Figures) -> Iterator[Doubt]:
    totals = figures.totals
    if totals is None:
        return
    whole = totals.done + totals.failed + totals.unfinished
    wanted = "all of them; figures over those that succeeded are those of another load"
    if totals.failed:
        yield Doubt(
            kind="failed", where="requests", measured=f"{totals.failed} of {whole} failed", wanted=wanted
        )
    if totals.unfinished:
        measured = f"{totals.unfinished} of {whole} were not finished"
        yield Doubt(kind="unfinished", where="requests", measured=measured, wanted=wanted)


def _of_load(load: Load) -> Iterator[Doubt]:
    empty = [one for one in load.requests if not one.error and (one.tokens == 0 or one.characters == 0)]
    if empty:
        yield Doubt(
            kind="no_output",
            where=load.name,
            measured=f"{len(empty)} of {len(load.requests)} replies are empty and count as done",
            wanted="a reply with text, or a failure",
        )
    yield from _of_rates(load)
    tokens = sum(one.tokens for one in load.requests)
    if load.aggregate and load.wall_s and tokens and _apart(load.aggregate, tokens / load.wall_s):
        yield Doubt(
            kind="aggregate",
            where=load.name,
            measured=f"{load.aggregate:,.1f} tok/s",
            wanted=f"{tokens / load.wall_s:,.1f}, which is {tokens:,} tokens in {load.wall_s:g} s",
        )


def _of_rates(load: Load) -> Iterator[Doubt]:
    wrong = [
        (one.rate, reckoned)
        for one in load.requests
        if one.rate and (reckoned := _rate(one)) and reckoned > MOST_TOKENS_A_CHUNK * one.rate
    ]
    if wrong:
        given, reckoned = wrong[0]
        yield Doubt(
            kind="rate",
            where=load.name,
            measured=f"{given:,.1f} tok/s in the first of {len(wrong)} replies",
            wanted=f"{reckoned:,.1f}, which is (tokens - 1) / (total - first token); chunks are not tokens",
        )


def _rate(one: Timed) -> float | None:
    if one.ttft_s is None or one.total_s is None or one.tokens < 2 or one.total_s <= one.ttft_s:
        return None
    return (one.tokens - 1) / (one.total_s - one.ttft_s)


def _of_prefills(prefills: Sequence[Prefill]) -> Iterator[Doubt]:
    for place, one in enumerate(prefills):
        others = [other.tok_s for at, other in enumerate(prefills) if at != place]
        usual = median(others) if others else None
        short = min(
            (other for other in prefills if other is not one), key=lambda other: other.tokens, default=None
        )
        if usual and one.tok_s > MOST_PREFILL_RATIO * usual:
            wanted = f"about {usual:,.0f}, as the other prompts of this result"
        elif short and _was_not_read(one, short):
            wanted = f"more time than the {short.seconds:g} s of {short.tokens:,} tokens"
        else:
            continue
        took = f" in {one.seconds:g} s" if one.seconds else ""
        yield Doubt(
            kind="cached_prefill",
            where=f"prefill {one.tokens:,}",
            measured=f"{one.tok_s:,.0f} tok/s{took}: it came from the prefix cache",
            wanted=wanted,
        )


def _was_not_read(one: Prefill, short: Prefill) -> bool:
    """Whether a prompt several times as long took hardly longer than a short one."""
    if not one.seconds or not short.seconds or one.tokens < 2 * short.tokens:
        return False
    return one.seconds / one.tokens < LEAST_PREFILL_SHARE * short.seconds / short.tokens


def _apart(given: float, reckoned: float) -> bool:
    return abs(given / reckoned - 1) > MOST_AGGREGATE_APART
