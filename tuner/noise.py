"""Noise of a line: how much boots of one configuration differ, from calibration boots or, without any, as others report it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean, variance

from tuner.metrics import Metric
from tuner.workload import Quantity

REPORTED: Mapping[Quantity, float] = {"per_stream": 0.010, "aggregate": 0.030, "prefill": 0.015}
"""Standard deviation of the log from boot to boot where a line was never calibrated. Reported for one and six streams,
tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks (relaunched before every run); prefill: assumed."""

CORRELATION = 0.45
CORRELATION_WEIGHT = 8
"""Between two metrics of a boot: assumed, and weighed like this many boots against what calibration says, since a few boots tell
little of it."""

VARIANCE_WEIGHT = 5
"""Calibration boots of each line that weigh as much as the expectation that lines are alike. Ours: the log of a ratio of variances from
six boots each is known within 0.9, and ratios that are reported of lines spread about as much."""

LEAST_BOOTS = 3
"""Calibration boots from which on they are believed. Ours: three tell a scatter within a factor of two, most of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How boots of one configuration differ: standard deviation of each metric's log, and the correlation between metrics.

    `boots` of calibration it rests on; 0 for figures of others. `within` is the share of the variance that passes within one
    boot have, by metric, empty where it is not known.
    """

    scatter: Mapping[str, float]
    correlation: float
    boots: int = 0
    within: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no scatter or correlation."""
        if not all(0 < value < 1 for value in self.scatter.values()):
            raise ValueError(f"scatter is {dict(self.scatter)}, wanted shares between 0 and 1")
        if not 0 <= self.correlation < 1:
            raise ValueError(f"correlation is {self.correlation}, wanted 0 to below 1")


Passes = Sequence[tuple[Metric, ...]]
"""The metrics of each pass of a workload over one boot."""


def reported(metrics: Mapping[str, Quantity]) -> Noise:
    """Return the noise that others report, for these metrics; those that no bar may name are left out."""
    return Noise(
        scatter={name: REPORTED[quantity] for name, quantity in metrics.items() if quantity in REPORTED},
        correlation=CORRELATION,
    )


def calibrated(boots: Sequence[Passes], metrics: Mapping[str, Quantity]) -> Noise:
    """Return the noise of one pass a boot, from boots of the base; that of others where there are too few.

    Between boots and within one by the analysis of variance for one random factor: with MSB and MSW the mean squares between
    and within boots and k passes a boot, s^2 = (MSB - MSW) / k + MSW, never below MSW.
    """
    known = reported(metrics)
    if len(boots) < LEAST_BOOTS:
        return known
    logs = {name: _logs(boots, name) for name in known.scatter}
    whole = {name: rows for name, rows in logs.items() if len(rows) == len(boots)}
    parts = {name: _parts(rows) for name, rows in whole.items()}
    return Noise(
        scatter={**known.scatter}
        | {name: math.sqrt(sum(found)) for name, found in parts.items() if sum(found)},
        correlation=_correlation([[fmean(row) for row in rows] for rows in whole.values()]),
        boots=len(boots),
        within={
            name: found[1] / sum(found)
            for name, found in parts.items()
            if sum(found) and _repeated(whole[name])
        },
    )


def pooled(noises: Sequence[Noise]) -> Noise:
    """Return the noise of one line of which as many boots tell as much of an effect as boots dealt evenly over these lines.

    Boots are weighed by what they tell: variances by their harmonic mean; correlations by their mean.
    """
    return Noise(
        scatter={
            name: math.sqrt(len(noises) / sum(1 / one.scatter[name] ** 2 for one in noises))
            for name in noises[0].scatter
        },
        correlation=fmean(one.correlation for one in noises),
        boots=min(one.boots for one in noises),
    )


def variances(first: Noise, second: Noise) -> Mapping[str, float]:
    """Return by metric how much the variance of the second line is expected to be over that of the first, drawn towards 1."""
    boots = min(first.boots, second.boots)
    weight = boots / (boots + VARIANCE_WEIGHT)
    return {
        name: (second.scatter[name] / first.scatter[name]) ** (2 * weight)
        for name in first.scatter
        if name in second.scatter
    }


def _logs(boots: Sequence[Passes], name: str) -> list[list[float]]:
    found = [
        [math.log(one.value) for taken in passes for one in taken if one.name == name] for passes in boots
    ]
    return [row for row in found if row]


def _repeated(rows: list[list[float]]) -> bool:
    return any(len(row) > 1 for row in rows)


def _parts(rows: list[list[float]]) -> tuple[float, float]:
    """Return the variance between boots and that within one."""
    spare = sum(len(row) - 1 for row in rows)
    within = sum((value - fmean(row)) ** 2 for row in rows for value in row) / spare if spare else 0.0
    passes = len(rows) / sum(1 / len(row) for row in rows)
    return max(0.0, variance([fmean(row) for row in rows]) - within / passes), within


def _correlation(columns: list[list[float]]) -> float:
    """Return the mean correlation of any two metrics, drawn towards the assumed one."""
    found = [_pearson(one, other) for one, other in combinations(columns, 2)]
    boots = len(columns[0]) if columns else 0
    mean = fmean(found) if found else CORRELATION
    return min(
        0.95, max(0.0, (boots * mean + CORRELATION_WEIGHT * CORRELATION) / (boots + CORRELATION_WEIGHT))
    )


def _pearson(one: list[float], other: list[float]) -> float:
    a, b = [x - fmean(one) for x in one], [x - fmean(other) for x in other]
    length = math.sqrt(math.fsum(x * x for x in a) * math.fsum(x * x for x in b))
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / length if length else 0.0
