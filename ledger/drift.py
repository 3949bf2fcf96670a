"""Drift: where a line became faster or slower by itself, over boots of one stack that were asked the same. Pure.

Candidates come from PELT (Killick, Fearnhead, Eckley 2012; the library ruptures) on the logs of a metric with a constant level between
changes; each then has to be proven like a lever: the ratio of the levels beside it with its interval, the spread pooled over all levels.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ledger.boots import Measured
from tuner.statistics import Comparison, compare

LEAST_BOOTS = 6
"""Below this a change cannot be told from noise. Ours."""

LEAST_LEVEL = 3
"""Boots that a level must have: two in a row are soon alike by chance. Ours."""

PENALTY = 4.0
"""Of one more change, in variances of the noise for each log of the number of boots. Ours, see tests/ledger/test_drift.py."""

CONFIDENCE = 0.99
"""A series is looked at again and again over months, so a change is asked for more than a single comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric of one stack of a line under one workload, boot by boot."""

    line: str
    simulated: bool
    stack: str
    workload: str
    metric: str
    unit: str
    boots: tuple[Measured, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change: the last boot before it, the first after it, and the level after it over the level before."""

    before: Measured
    after: Measured
    comparison: Comparison


def series(boots: Sequence[Measured], metric: str | None = None) -> tuple[Series, ...]:
    """Return every series of a line's sound boots in the order of time, the longest first; of one metric, or of every speed."""
    found: dict[tuple[str, bool, str, str, str, str], list[tuple[Measured, float]]] = {}
    for boot in boots:
        for one in boot.metrics:
            wanted = one.name == metric if metric else one.unit == "tok/s"
            if wanted and one.value > 0 and not boot.voids:
                key = (boot.line, boot.simulated, boot.stack, boot.workload, one.name, one.unit)
                found.setdefault(key, []).append((boot, one.value))
    told = (
        Series(
            line=line,
            simulated=simulated,
            stack=stack,
            workload=workload,
            metric=name,
            unit=unit,
            boots=tuple(boot for boot, _ in points),
            values=tuple(value for _, value in points),
        )
        for (line, simulated, stack, workload, name, unit), points in found.items()
    )
    return tuple(sorted(told, key=lambda one: (-len(one.boots), one.line, one.stack, one.metric)))


def changes(one: Series) -> tuple[Change, ...]:
    """Return the changes of a series that are proven; none where it is too short to tell."""
    cuts = candidates(one.values)
    levels = {
        f"level {at}": one.values[start:end]
        for at, (start, end) in enumerate(_between(cuts, len(one.values)))
    }
    found = (
        Change(before=one.boots[cut - 1], after=one.boots[cut], comparison=_compared(levels, at))
        for at, cut in enumerate(cuts)
    )
    return tuple(change for change in found if change.comparison.low > 1 or change.comparison.high < 1)


def candidates(values: Sequence[float]) -> tuple[int, ...]:
    """Return the positions at which a new level may begin, by PELT on the logs, in units of their noise."""
    if len(values) < LEAST_BOOTS:
        return ()
    import numpy as np  # noqa: PLC0415  # heavy, and only drift needs it
    import ruptures  # noqa: PLC0415

    logs = np.log(np.asarray(values))
    noise = _noise(logs.tolist())
    if noise == 0:
        return ()
    search = ruptures.Pelt(model="l2", min_size=LEAST_LEVEL, jump=1).fit((logs / noise).reshape(-1, 1))
    return tuple(int(at) for at in search.predict(pen=PENALTY * math.log(len(values)))[:-1])


def _noise(logs: Sequence[float]) -> float:
    """Return the noise from boot to boot: from differences of neighbours, which a few changes of level do not reach."""
    steps = [abs(after - before) for before, after in itertools.pairwise(logs)]
    return 1.4826 * median(steps) / math.sqrt(2)


def _between(cuts: Sequence[int], count: int) -> list[tuple[int, int]]:
    return list(zip((0, *cuts), (*cuts, count), strict=True))


def _compared(levels: Mapping[str, tuple[float, ...]], at: int) -> Comparison:
    return compare(levels, f"level {at + 1}", f"level {at}", CONFIDENCE)
