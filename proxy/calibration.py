"""Calibration: from whole replies of a line to the thresholds at which fewer than 1 % of such replies raise the alarm.

The alarm trips at a threshold exactly when somewhere in the reply, within a window, enough tokens lie below it. So one number
tells a reply: its depth, the lowest threshold that it passes without alarm. The depths of many whole replies, sorted, are the
rate of false alarms as a function of the threshold.
"""

from collections.abc import Mapping, Sequence

from scipy.stats import beta

from proxy.depth import SURE
from proxy.thresholds import Threshold, Thresholds

MOST_FALSE = 0.01
"""Healthy replies that may raise the alarm; the report on sparse reads found 0.70 %."""

CONFIDENCE = 0.95
"""With which the true rate is below that. Ours; it asks for 299 replies without any alarm."""


def calibrate(
    model: str, depths: Mapping[float, Sequence[float]], loops: Mapping[float, int] | None = None
) -> Thresholds:
    """Return a row for each temperature that has healthy replies enough; `loops` are those left out, by temperature."""
    left_out = loops or {}
    rows = (_row(one, sorted(depths[one]), left_out.get(one, 0)) for one in sorted(depths))
    return Thresholds(model=model, thresholds=tuple(row for row in rows if row))


def rate(alarms: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of Clopper and Pearson of a rate."""
    low = float(beta.ppf(0.025, alarms, total - alarms + 1)) if alarms else 0.0
    high = float(beta.ppf(0.975, alarms + 1, total - alarms)) if alarms < total else 1.0
    return low, high


def wanted() -> int:
    """Return how many replies of one temperature a row asks for at the least."""
    number = 1
    while _bound(0, number) >= MOST_FALSE:
        number += 1
    return number


def _row(temperature: float, depths: Sequence[float], loops: int) -> Threshold | None:
    """Return the highest threshold whose rate of alarms is surely below the most: a reply trips it when it lies deeper."""
    total = len(depths)
    alarms = -1
    while alarms + 1 < total and _bound(alarms + 1, total) < MOST_FALSE:
        alarms += 1
    if alarms < 0:
        return None
    logprob = min(depths[alarms], SURE)
    below = sum(depth < logprob for depth in depths)
    low, high = rate(below, total)
    return Threshold(
        temperature=temperature, logprob=round(logprob, 4), replies=total, alarms=below, loops=loops,
        low=round(low, 6), high=round(high, 6),
    )  # fmt: skip


def _bound(alarms: int, total: int) -> float:
    """Return the upper bound of Clopper and Pearson on a rate, one-sided."""
    return float(beta.ppf(CONFIDENCE, alarms + 1, total - alarms))
