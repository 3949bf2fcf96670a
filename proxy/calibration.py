"""Calibration: from whole replies of a line to the thresholds at which fewer than 1 % of such replies raise an alarm.

Two numbers tell a reply, its depths (`proxy.depth`): how near it came to the alarm on improbable tokens and to that on the mean.
Both thresholds together have one allowance of false alarms. They are found by cutting replies off, one by one: first the reply that
lies deepest for the first alarm, then, of those left, three times the one with the highest mean, and so on; a threshold is the number
of the last reply that its alarm cut. Whatever the law of the replies, and however the two numbers hang together, the rate of others
that lie beyond either threshold after k cuts among n replies then follows Beta(k, n - k + 1), as if one alarm had made all the cuts:
the blocks of Tukey, "Non-parametric estimation II" (1947), after Wald (1943). So no part of the confidence is spent twice.
"""

import math
from collections.abc import Mapping, Sequence

from scipy.stats import beta

from proxy.depth import SURE, Depths
from proxy.thresholds import Threshold, Thresholds

MOST_FALSE = 0.01
"""Healthy replies that may raise an alarm; the report on sparse reads found 0.70 % for improbable tokens."""

CONFIDENCE = 0.95
"""With which the true rate is below that. Ours; it asks for 299 replies before one can be cut off, and for 473 before two can."""

EVERY = 4
"""Of so many cuts the first is the alarm's on improbable tokens, the others are the mean's. Ours: on the mini model the mean sees nearly
all that either sees, and what the report says of improbable tokens is of replies longer than those can be (docs/calibration.md)."""


def calibrate(
    model: str,
    depths: Mapping[float, Sequence[Depths]],
    loops: Mapping[float, int] | None = None,
    *,
    every: int = EVERY,
) -> Thresholds:
    """Return a row for each temperature that has healthy replies enough; `loops` are those left out, by temperature."""
    left_out = loops or {}
    rows = (_row(one, depths[one], left_out.get(one, 0), every) for one in sorted(depths))
    return Thresholds(model=model, thresholds=tuple(row for row in rows if row))


def rate(alarms: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of Clopper and Pearson of a rate."""
    low = float(beta.ppf(0.025, alarms, total - alarms + 1)) if alarms else 0.0
    high = float(beta.ppf(0.975, alarms + 1, total - alarms)) if alarms < total else 1.0
    return low, high


def wanted(alarms: int = 1) -> int:
    """Return how many replies of one temperature a row asks for at the least, to set so many of the two alarms."""
    number = alarms
    while _bound(alarms, number) >= MOST_FALSE:
        number += 1
    return number


def cuts(total: int) -> int:
    """Return how many of so many replies may be cut off, so that surely fewer than the most lie beyond."""
    number = 0
    while number < total and _bound(number + 1, total) < MOST_FALSE:
        number += 1
    return number


def _row(temperature: float, depths: Sequence[Depths], loops: int, every: int) -> Threshold | None:
    """Return the thresholds of one temperature; that of the mean is None where no cut was left for it, or none of a full window."""
    last, mean = _cut(depths, every)
    if last is None:
        return None
    # Rounded away from the replies, so that a file holds no more of them beyond than were counted.
    logprob = math.floor(min(last, SURE) * 1e4) / 1e4
    surprise = math.ceil(mean * 1e4) / 1e4 if mean else None
    beyond = sum(
        one.logprob < logprob or (surprise is not None and one.surprise > surprise) for one in depths
    )
    low, high = rate(beyond, len(depths))
    return Threshold(
        temperature=temperature, logprob=logprob, surprise=surprise, replies=len(depths), alarms=beyond, loops=loops,
        low=round(low, 6), high=round(high, 6),
    )  # fmt: skip


def _cut(depths: Sequence[Depths], every: int) -> tuple[float | None, float | None]:
    """Cut replies off; return the log-probability and the surprise of the last that was cut by each."""
    places = range(len(depths))
    deepest = iter(sorted(places, key=lambda place: depths[place].logprob))
    highest = iter(sorted(places, key=lambda place: -depths[place].surprise))
    gone: set[int] = set()
    logprob = surprise = None
    for turn in range(cuts(len(depths))):
        place = next(one for one in (highest if turn % every else deepest) if one not in gone)
        gone.add(place)
        if turn % every:
            surprise = depths[place].surprise
        else:
            logprob = depths[place].logprob
    return logprob, surprise


def _bound(cut: int, total: int) -> float:
    """Return what the rate beyond so many cuts surely stays below, one-sided."""
    return float(beta.ppf(CONFIDENCE, cut, total - cut + 1))
