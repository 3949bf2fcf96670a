"""Outlook: what a climb will cost and what it is worth, before its first boot. Predicted from the noise, never measured.

The bounds themselves hold whatever the noise; power, boots and hours are forecasts, some points above what the study finds
(docs/method.md), since drift, interactions and lost boots are left out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import scipy

from tuner.course import Course
from tuner.evidence import alpha
from tuner.factorial import confirmation
from tuner.factorial.bounds import bound
from tuner.factorial.drift import OF_DRIFT
from tuner.factorial.plan import Plan, levers_judged, remaining
from tuner.lever import Ladder
from tuner.noise import Noise

GAINS = (0.03, 0.04, 0.06)
"""Gains for which the power is told."""

LOST = 0.12
"""Share of boots that are void or fail: one slow in ten and one in thirty that does not come up, as in the study. Ours."""

USED = 0.8
"""Share of the planned runs that a climb of twelve levers takes on the mean, as the study finds (simulated)."""

WINNERS = 1 / 3
"""Share of levers for whose boots without them in the confirmation room is kept. Ours."""

BOOT_MINUTES = 12.0
"""A boot with checks, smokes and bench where the ledger has none of the line: predicted, of which 504 to 544 s of launch are
reported (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Boots expected and at most, confirmation included; and by primary and true gain the chance that it is proven.

    Boots are those of all `lines` together, which boot at the same time.
    """

    expected: int
    most: int
    confirmation: int
    minutes_a_boot: float
    power: Mapping[str, Mapping[float, float]]
    lines: int = 1

    def hours(self, boots: int) -> float:
        """Return how long so many boots take."""
        return boots / self.lines * self.minutes_a_boot / 60


def outlook(ladder: Ladder, course: Course, noise: Noise, minutes_a_boot: float) -> Outlook:
    """Return the outlook of a climb that has not begun."""
    if course.plan is not None:
        return _of_blocks(ladder, course.plan, noise, minutes_a_boot, max(1, len(course.lines)))
    levers = levers_judged(ladder)
    if course.rule == "seed":
        boots = round((levers + 1) * (1 + LOST))
        return Outlook(expected=boots, most=boots, confirmation=0, minutes_a_boot=minutes_a_boot, power={})
    most = levers * 2 * ladder.boots.most
    power = {
        name: {gain: _power_of_arms(ladder, noise.scatter[name], gain) for gain in GAINS}
        for name in ladder.primary
    }
    return Outlook(
        expected=round(most * (1 + LOST) * USED),
        most=round(most * (1 + LOST)),
        confirmation=0,
        minutes_a_boot=minutes_a_boot,
        power=power,
    )


def runs_for(ladder: Ladder, boots: int, lines: int = 1) -> int:
    """Return the runs of blocks that leave room for lost boots and for the confirmation in so many boots; at least 4, even."""
    left = boots - _confirmation(ladder, lines)
    return max(4, 2 * math.floor((left if left >= boots / 2 else boots) / (1 + LOST) / 2))


def _confirmation(ladder: Ladder, lines: int) -> int:
    return 2 * confirmation.PAIRS * lines + math.ceil(levers_judged(ladder) * WINNERS)


def _of_blocks(ladder: Ladder, plan: Plan, noise: Noise, minutes_a_boot: float, lines: int) -> Outlook:
    arming = levers_judged(ladder) + 2 if plan.arming == "alone" else lines
    last = _confirmation(ladder, lines)
    scatter = remaining(ladder, noise)
    return Outlook(
        expected=round((arming + plan.most * USED) * (1 + LOST)) + last,
        most=math.ceil((arming + plan.most) * (1 + LOST)) + last,
        confirmation=last,
        minutes_a_boot=minutes_a_boot,
        power={
            name: {gain: _power_of_blocks(ladder, plan, name, scatter[name], gain) for gain in GAINS}
            for name in ladder.primary
        },
        lines=lines,
    )


def _power_of_blocks(ladder: Ladder, plan: Plan, name: str, scatter: float, gain: float) -> float:
    """Return the chance that a gain passes the last bound and the bar of size: normal approximation."""
    runs = range(plan.first, plan.most, plan.step)
    measured = 1 - LOST
    looks = tuple(plan.look(at, max(1, round(at * measured))) for at in (*runs, plan.most))
    error = 2 * scatter / math.sqrt(plan.most * measured)
    limit = bound(ladder.error * plan.shares[name] / levers_judged(ladder), looks)
    degrees = looks[-1].information - levers_judged(ladder) - 1 - len(plan.covariates[name]) - OF_DRIFT
    return _above(ladder, gain, error, _quantile(limit, degrees))


def _power_of_arms(ladder: Ladder, scatter: float, gain: float) -> float:
    error = scatter * math.sqrt(2 / ladder.boots.most)
    limit = _quantile(-float(scipy.special.ndtri(alpha(ladder))), 2 * ladder.boots.most - 2)
    return _above(ladder, gain, error, limit)


def _quantile(z: float, degrees: int) -> float:
    """Return the quantile of Student's t with the tail of this z; inf where nothing is left to tell the noise from."""
    return -float(scipy.special.stdtrit(degrees, scipy.special.ndtr(-z))) if degrees > 0 else math.inf


def _above(ladder: Ladder, gain: float, error: float, limit: float) -> float:
    wanted = max(limit, math.log1p(ladder.min_gain) / error)
    return float(scipy.special.ndtr(math.log1p(gain) / error - wanted))
