"""The best configuration of each line: the stack that its last climb kept, with figures from that stack's own boots.

The unit is a boot: a figure is the geometric mean over the boots of exactly that stack, within that climb alone, and
its interval comes from the spread between boots, not between the requests inside one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev

from ledger.entry import Row
from ledger.history import Climb, newest
from tuner.steps import Trial

LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A metric over `n` boots: geometric mean, and the 95 % interval of that mean unless one boot is all there is."""

    metric: str
    unit: str
    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """A line's best configuration; `boots` counts the measured boots of exactly this stack."""

    climb: Climb
    stack: tuple[str, ...]
    boots: int
    figures: tuple[Figure, ...]


def best(rows: Sequence[Row]) -> tuple[Best, ...]:
    """Return the best configuration of each line that has figures, real lines first; practice and real ones never mix.

    It is that of the last climb that came to its end; a climb that is still open counts only while there is no other.
    """
    of = newest(rows)
    ordered = sorted(of, key=lambda line: (line[1], line[0]))
    return tuple(found for line in ordered if (found := _best_of(of[line])) is not None)


def summarise(name: str, unit: str, values: Sequence[float]) -> Figure:
    """Return the geometric mean of the values and its 95 % t interval, taken on the logarithms.

    Speeds scatter in proportion to their size, so their logarithms are what is taken as normal (docs/method.md). One
    value has no interval, nor have values that have no logarithm; of those the plain mean is given.
    """
    n = len(values)
    if n == 1 or min(values) <= 0:
        return Figure(metric=name, unit=unit, n=n, mean=fmean(values), low=None, high=None)
    from scipy.special import stdtrit  # noqa: PLC0415  # 0.2 s that a list of rows must not pay

    logs = [log(value) for value in values]
    mean = fmean(logs)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * stdev(logs) / sqrt(n)
    return Figure(metric=name, unit=unit, n=n, mean=exp(mean), low=exp(mean - half), high=exp(mean + half))


def _best_of(own: Iterator[Climb]) -> Best | None:
    """Return the first with figures that ended, of climbs the last of which comes first; else the first with figures."""
    open_one = None
    for found in filter(None, map(_figures, own)):
        if found.climb.ended:
            return found
        open_one = open_one or found
    return open_one


def _figures(climb: Climb) -> Best | None:
    """Return the figures of a climb's stack, or None when no boot of exactly that stack was measured.

    Of a stack that was confirmed only the fresh boots count: the others decided about its levers.
    """
    boots = [
        trial
        for trial in climb.trials
        if trial.outcome == "measured" and frozenset(trial.arm) == frozenset(climb.stack)
    ]
    if not boots:
        return None
    if climb.ended and climb.ended.fresh:
        boots = boots[-climb.ended.fresh :]
    names = sorted({(one.name, one.unit) for trial in boots for one in trial.metrics})
    figures = tuple(summarise(name, unit, _values(boots, name, unit)) for name, unit in names)
    return Best(climb=climb, stack=climb.stack, boots=len(boots), figures=figures)


def _values(boots: Sequence[Trial], name: str, unit: str) -> tuple[float, ...]:
    return tuple(
        one.value for trial in boots for one in trial.metrics if (one.name, one.unit) == (name, unit)
    )
