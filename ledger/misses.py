"""Misses: what was predicted of a climb's levers, beside what its boots then measured. Pure.

A speed is compared with the effect that the verdict rests on. The cache is compared as two boots logged it that differ in nothing
but the lever: it is arithmetic on both sides and needs no interval.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from ledger import conclusions
from ledger.history import Climb
from ledger.table import effect
from sparkctl.units import percent
from tuner.predicted import KV_TOKENS, Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One metric of one lever: predicted and measured as ratios to the line without the lever.

    `measured` is None where it was not, `error` then too; else `error` is the share by which the measured ratio lies beyond the
    nearer end of the prediction, 0 within it. `open` says that the measured interval still reaches the prediction.
    """

    lever: str
    predicted: Effect
    measured: conclusions.Effect | None
    error: float | None
    open: bool


def misses(climb: Climb) -> tuple[Miss, ...]:
    """Return every prediction of a climb in the order of its levers, beside what was measured so far."""
    return tuple(
        _miss(climb, lever, told)
        for lever in climb.plan.levers
        for told in climb.plan.predicted.get(lever, ())
    )


def unmodelled(climb: Climb) -> tuple[str, ...]:
    """Return the levers of which nothing was predicted, where predictions were made at all."""
    told = climb.plan.predicted
    return tuple(lever for lever in climb.plan.levers if told and not told.get(lever))


def span(effect: Effect) -> str:
    """Format a prediction: `+5.0 % to +33.2 %`, or the one figure where both ends are the same."""
    low, high = percent(effect.low), percent(effect.high)
    return low if low == high else f"{low} to {high}"


def measured(miss: Miss) -> str:
    """Format what was measured: an effect with its bounds, or the one ratio of what the engine logged."""
    if miss.measured is None or miss.measured.estimate is None:
        return "not measured"
    exact = miss.measured.low == miss.measured.high
    return percent(miss.measured.estimate) if exact else effect(miss.measured)


def error(miss: Miss) -> str:
    """Format how far the prediction was off, with `~` where the measured interval still reaches it."""
    if miss.error is None:
        return ""
    off = f"{miss.error * 100:+.2f} %"
    if float(off.removesuffix(" %")) == 0:
        return "none"
    return f"~ {off}" if miss.open else off


def _miss(climb: Climb, lever: str, effect: Effect) -> Miss:
    measured = _logged(climb, lever) if effect.metric == KV_TOKENS else _judged(climb, lever, effect.metric)
    if measured is None or measured.estimate is None:
        return Miss(lever=lever, predicted=effect, measured=None, error=None, open=True)
    return Miss(
        lever=lever,
        predicted=effect,
        measured=measured,
        error=effect.miss(measured.estimate),
        open=_reaches(measured, effect),
    )


def _judged(climb: Climb, lever: str, metric: str) -> conclusions.Effect | None:
    found = (one for verdict in climb.verdicts if verdict.lever == lever for one in verdict.effects)
    return next((one for one in found if one.metric == metric), None)


def _logged(climb: Climb, lever: str) -> conclusions.Effect | None:
    ratios = tuple(_ratios(climb, lever))
    if not ratios:
        return None
    return conclusions.Effect(metric=KV_TOKENS, estimate=median(ratios), low=min(ratios), high=max(ratios))


def _ratios(climb: Climb, lever: str) -> Iterator[float]:
    """Yield the ratio of every pair of boots that differ in nothing but the lever."""
    for arm in climb.caches:
        rest = frozenset(arm.on) - {lever}
        if lever in arm.on:
            yield from (
                arm.tokens / base.tokens
                for base in climb.caches
                if base.tokens and frozenset(base.on) == rest
            )


def _reaches(measured: conclusions.Effect, effect: Effect) -> bool:
    above = measured.low is not None and measured.low > effect.high
    below = measured.high is not None and measured.high < effect.low
    return not (above or below)
