"""Budget: may a line serve while it reads its experts within a budget? Replies under the budget beside replies that are read whole. Pure.

A reply's KL is taken along its own tokens: what the line said while it made them, against what it says of the same tokens in a prefill, which
is read whole. Replies read whole lie from their prefill as far as other company in a batch takes them: that is the floor, and what the
budget adds comes on top. Three things are judged, each against the line's own replies read whole: the KL added at each number of requests
in flight, the worst reply, and the replies that collapse. docs/quality.md tells what that can and cannot show.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuner.lever import Bounds
from tuner.quality import bootstrap
from tuner.quality.bootstrap import Estimate
from tuner.quality.floor import LEAST_BOUND, Outcome

Arm = Literal["budget", "whole"]
BoundFrom = Literal["floor", "least", "ladder", "ours"]

MOST_COLLAPSES_ADDED = 0.02
"""Share of replies that may collapse beyond those that do when read whole. Ours: what some 140 replies without a collapse can show."""

LEAST_TOKENS = 16
"""Tokens of a reply that can be the worst one: the mean of a few is noise. Ours."""

Z = 1.6449
"""Of a normal distribution: each bound is a one-sided 95 %, as in `tuner.quality.bootstrap`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply: its mean least KL from whole reads in nats a token, and the damage that the audit finds in its text, '' where none.

    `size` counts the requests that were in flight.
    """

    arm: Arm
    size: int
    id: str
    tokens: int
    kl_nats: float
    damage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that is judged: under the budget, read whole, what the budget adds, and the most that it may add."""

    what: str
    value: float
    floor: float
    added: Estimate
    bound: float
    bound_from: BoundFrom
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What the replies amount to."""

    outcome: Outcome
    why: str
    checks: tuple[Check, ...]


def judge(replies: Sequence[Reply], bounds: Bounds | None, seed: int) -> Grade:
    """Judge replies of both arms; `bounds` are a ladder's, None for the floor's own size.

    Raises:
        ValueError: a number in flight has no replies of one arm.

    """
    sizes = tuple(dict.fromkeys(one.size for one in replies))
    checks = (
        *(_added(replies, size, bounds, seed) for size in sizes),
        _worst(replies, bounds),
        _collapses(replies),
    )
    outcome = _of([one.outcome for one in checks])
    return Grade(outcome=outcome, why=_why(checks, outcome), checks=checks)


def _added(replies: Sequence[Reply], size: int, bounds: Bounds | None, seed: int) -> Check:
    """Compare mean KL at one number in flight; whole replies are drawn anew, for tokens of one reply depend on each other."""
    drawn, means = [], []
    for salt, arm in enumerate(("budget", "whole")):
        own = [one for one in replies if (one.arm, one.size) == (arm, size) and one.tokens]
        if not own:
            raise ValueError(f"no reply of {size} in flight was read {'whole' if salt else 'by budget'}")
        tokens = np.array([one.tokens for one in own], dtype=np.float64)
        sums = np.array([[[one.kl_nats * one.tokens for one in own]]], dtype=np.float64)
        drawn.append(bootstrap.draws(sums, tokens, seed + salt)[:, 0])
        means.append(float(sums.sum() / tokens.sum()))
    bound, origin = _bound(means[1], bounds)
    return _check(
        f"KL, {size} in flight",
        means[0],
        means[1],
        bootstrap.interval(means[0] - means[1], drawn[0] - drawn[1]),
        bound,
        origin,
    )


def _worst(replies: Sequence[Reply], bounds: Bounds | None) -> Check:
    """Compare the worst replies that did not collapse: beyond the worst one read whole, at most what an average reply shows by itself.

    The largest of so many has no interval.
    """
    whole = [one for one in replies if one.arm == "whole"]
    mean = sum(one.kl_nats * one.tokens for one in whole) / max(1, sum(one.tokens for one in whole))
    value, floor = (
        max(
            (
                one.kl_nats
                for one in replies
                if one.arm == arm and not one.damage and one.tokens >= LEAST_TOKENS
            ),
            default=0.0,
        )
        for arm in ("budget", "whole")
    )
    bound, origin = _bound(mean, bounds)
    added = value - floor
    return _check(
        "KL of the worst reply", value, floor, Estimate(mean=added, low=added, high=added), bound, origin
    )


def _collapses(replies: Sequence[Reply]) -> Check:
    counts = [[bool(one.damage) for one in replies if one.arm == arm] for arm in ("budget", "whole")]
    value, floor = (sum(one) / len(one) for one in counts)
    added = _difference((sum(counts[0]), len(counts[0])), (sum(counts[1]), len(counts[1])))
    return _check("collapses", value, floor, added, MOST_COLLAPSES_ADDED, "ours")


def _difference(one: tuple[int, int], other: tuple[int, int]) -> Estimate:
    """Return the difference of two rates with Newcombe's interval (hybrid of Wilson's; Statistics in Medicine 17, 1998)."""
    (p, low, high), (q, other_low, other_high) = _wilson(*one), _wilson(*other)
    return Estimate(
        mean=p - q,
        low=p - q - math.hypot(p - low, other_high - q),
        high=p - q + math.hypot(high - p, q - other_low),
    )


def _wilson(hits: int, total: int) -> tuple[float, float, float]:
    rate = hits / total
    middle = (rate + Z * Z / (2 * total)) / (1 + Z * Z / total)
    reach = Z / (1 + Z * Z / total) * math.sqrt(rate * (1 - rate) / total + (Z / (2 * total)) ** 2)
    return rate, max(0.0, middle - reach), min(1.0, middle + reach)


def _bound(floor: float, bounds: Bounds | None) -> tuple[float, BoundFrom]:
    if bounds and bounds.most_kl_over_floor is not None:
        return bounds.most_kl_over_floor, "ladder"
    least = LEAST_BOUND["kl_nats"]
    return (floor, "floor") if floor > least else (least, "least")


def _check(  # noqa: PLR0913, PLR0917 - the fields of a check, and its outcome from them
    what: str, value: float, floor: float, added: Estimate, bound: float, origin: BoundFrom
) -> Check:
    outcome: Outcome = "passes" if added.high <= bound else "exceeds" if added.low > bound else "inconclusive"
    return Check(
        what=what, value=value, floor=floor, added=added, bound=bound, bound_from=origin, outcome=outcome
    )


def _of(outcomes: Sequence[Outcome]) -> Outcome:
    return "exceeds" if "exceeds" in outcomes else "inconclusive" if "inconclusive" in outcomes else "passes"


def _why(checks: Sequence[Check], outcome: Outcome) -> str:
    return "; ".join(
        f"{one.what}: the budget adds {one.added.mean:.4g} ({one.added.low:.4g} to {one.added.high:.4g}) to {one.floor:.4g} "
        f"read whole, at most {one.bound:.4g} wanted"
        for one in checks
        if one.outcome == outcome
    )
