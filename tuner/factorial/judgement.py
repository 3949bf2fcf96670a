"""The judgement at a look: from estimates of all levers to verdicts on those that are decided; docs/method.md tells the rule.

Proof needs a z above its bound and an estimate of at least min_gain on one primary, and every guard by its bound. The
ladder's error is shared among the levers that are not accepted yet and their primaries; with each lever that is accepted
the others' shares grow (stepping down, Holm), and the look is judged again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import special

from sparkctl.units import percent
from tuner.factorial import wording
from tuner.factorial.bounds import Look, bound
from tuner.factorial.estimates import Estimate, Estimates
from tuner.factorial.factors import rivals
from tuner.factorial.plan import WANTED_GAIN, Plan, levers_judged
from tuner.ladder import On
from tuner.lever import Ladder, Lever
from tuner.statistics import Comparison
from tuner.verdict import Outcome

FUTILE_CHANCE = 0.40
"""A lever is given up once the chance that its gain is still proven, were it +4 %, falls below this on every primary
(conditional power; Lan, Simon and Halperin, Sequential Analysis 1, 1982). Not binding. Ours, by benchmarks/tuner_study.py."""

GUARD_FUTILE_ERRORS = 1.0
"""Likewise once estimate + 1 error lies below a guard's bar."""

GUARD_ERROR = 0.05
"""One-sided error of the bound that holds or breaks a guard."""

OPEN_POWER = 0.80
"""The power with which an open lever's further boots are planned; no verdict rests on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a look sees: all looks so far (this one last), whether it is the last, and the estimates.

    `stack` are the levers accepted before, `out` those rejected before, in any order.
    """

    ladder: Ladder
    plan: Plan
    looks: tuple[Look, ...]
    last: bool
    estimates: Estimates
    stack: On
    out: On

    @property
    def open(self) -> tuple[Lever, ...]:
        """Levers of kind speed that are neither accepted nor rejected, in the ladder's order."""
        decided = {*self.stack, *self.out}
        return tuple(one for one in self.ladder.levers if one.kind == "speed" and one.id not in decided)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided on a lever at a look, from which numbers, and the further boots it asks for."""

    lever: str
    verdict: Outcome
    why: str
    metrics: Mapping[str, Comparison]
    wanted: int | None = None


def judge(sight: Sight) -> tuple[Decision, ...]:
    """Return the decisions of a look: accepted ones first, the strongest before others, then rejected, then left open."""
    decisions: list[Decision] = []
    while (found := _best(sight)) is not None:
        decisions.append(found)
        beaten = _beaten(sight, found.lever)
        decisions.extend(beaten)
        sight = _after(sight, (found.lever,), tuple(one.lever for one in beaten))
    given_up = tuple(one for lever in sight.open if (one := _given_up(sight, lever)) is not None)
    sight = _after(sight, (), tuple(one.lever for one in given_up))
    orphans = _orphans(sight)
    sight = _after(sight, (), tuple(one.lever for one in orphans))
    left = tuple(_left_open(sight, lever) for lever in sight.open) if sight.last else ()
    return (*decisions, *given_up, *orphans, *left)


def limit(sight: Sight, metric: str) -> float:
    """Return the bound that an open lever's z has to pass on a primary now."""
    return bound(_error(sight, metric), sight.looks)


def _error(sight: Sight, metric: str) -> float:
    """Return the one-sided error of one lever on one primary, over all looks."""
    return sight.ladder.error * sight.plan.shares[metric] / (levers_judged(sight.ladder) - len(sight.stack))


def compare(sight: Sight, lever: str) -> dict[str, Comparison]:
    """Return the lever's effects as ratios, each with the interval that decides it."""
    guards = {guard.metric: -float(special.ndtri(GUARD_ERROR)) for guard in sight.ladder.guards}
    limits = guards | {name: limit(sight, name) for name in sight.ladder.primary}
    return {
        name: wording.comparison(found, limits[name])
        for name, found in sight.estimates.get(lever, {}).items()
    }


def _after(sight: Sight, accepted: On, rejected: On) -> Sight:
    return Sight(
        ladder=sight.ladder,
        plan=sight.plan,
        looks=sight.looks,
        last=sight.last,
        estimates=sight.estimates,
        stack=(*sight.stack, *accepted),
        out=(*sight.out, *rejected),
    )


def _best(sight: Sight) -> Decision | None:
    """Return the strongest lever that is proven and may be accepted now."""
    proven = {lever.id: gain for lever in sight.open if (gain := _gain(sight, lever)) is not None}
    if not proven:
        return None
    name = max(proven, key=lambda one: proven[one])
    metrics = compare(sight, name)
    winners = _winners(sight, name)
    numbers = [f"{metric} {wording.spread(metrics[metric])}" for metric in winners]
    bars = [wording.bar(guard.metric, guard.most_loss, metrics) for guard in sight.ladder.guards]
    error = sight.ladder.error
    why = f"gain proven, all levers and looks together erring at most {error:.0%}: " + "; ".join(
        [*numbers, *bars]
    )
    return Decision(lever=name, verdict="accept", why=why, metrics=metrics)


def _gain(sight: Sight, lever: Lever) -> float | None:
    """Return the mean estimate over the primaries of a lever to accept, None for one that is not to be accepted now.

    What it requires must have been accepted. Of levers that exclude each other one that reads higher goes first; while
    it is not proven the others wait, until the last look.
    """
    if not _winners(sight, lever.id) or not set(lever.requires) <= set(sight.stack):
        return None
    if not all(_is_held(sight, lever.id, guard.metric, guard.most_loss) for guard in sight.ladder.guards):
        return None
    gain = _mean(sight, lever.id)
    against = [one.id for one in sight.open if one.id in rivals(sight.ladder, lever.id)]
    if not sight.last and any(_mean(sight, other) > gain for other in against):
        return None
    return gain


def _mean(sight: Sight, lever: str) -> float:
    found = sight.estimates.get(lever)
    if found is None:
        return -math.inf
    return sum(found[name].effect for name in sight.ladder.primary) / len(sight.ladder.primary)


def _winners(sight: Sight, lever: str) -> tuple[str, ...]:
    """Return the primaries on which a lever's gain is proven and large enough."""
    found = sight.estimates.get(lever)
    if found is None:
        return ()
    size = math.log1p(sight.ladder.min_gain)
    return tuple(
        name
        for name in sight.ladder.primary
        if found[name].effect >= size and found[name].z > limit(sight, name)
    )


def _is_held(sight: Sight, lever: str, metric: str, most_loss: float) -> bool:
    found = sight.estimates[lever][metric]
    return found.effect - found.reach(-float(special.ndtri(GUARD_ERROR))) > math.log1p(-most_loss)


def _beaten(sight: Sight, winner: str) -> tuple[Decision, ...]:
    """Reject what cannot stand beside a lever that has just been accepted."""
    against = rivals(sight.ladder, winner)
    return tuple(
        Decision(
            lever=lever.id,
            verdict="reject",
            why=f"cannot stand beside {winner}, which was accepted",
            metrics=compare(sight, lever.id),
        )
        for lever in sight.open
        if lever.id in against
    )


def _orphans(sight: Sight) -> tuple[Decision, ...]:
    """Reject what requires a lever that is out."""
    found: list[Decision] = []
    out = set(sight.out)
    for lever in sight.open:
        lost = [name for name in lever.requires if name in out]
        if lost:
            out.add(lever.id)
            why = f"needs {lost[0]}, which was not accepted"
            found.append(
                Decision(lever=lever.id, verdict="reject", why=why, metrics=compare(sight, lever.id))
            )
    return tuple(found)


def _given_up(sight: Sight, lever: Lever) -> Decision | None:
    found = sight.estimates.get(lever.id)
    if found is None or not all(one.degrees for one in found.values()):
        return None
    metrics = compare(sight, lever.id)
    for guard in sight.ladder.guards:
        own = found[guard.metric]
        if own.effect + GUARD_FUTILE_ERRORS * own.error < math.log1p(-guard.most_loss):
            why = f"guard broken: {wording.bar(guard.metric, guard.most_loss, metrics)}"
            return Decision(lever=lever.id, verdict="reject", why=why, metrics=metrics)
    if sight.last or any(_hope(sight, name, found[name]) >= FUTILE_CHANCE for name in sight.ladder.primary):
        return None
    numbers = "; ".join(f"{name} {wording.spread(metrics[name])}" for name in sight.ladder.primary)
    harmed = [name for name in sight.ladder.primary if found[name].z < -limit(sight, name)]
    cause = (
        f"harm on {', '.join(harmed)}"
        if harmed
        else f"no gain of {percent(1 + sight.ladder.min_gain)} in sight"
    )
    return Decision(lever=lever.id, verdict="reject", why=f"{cause}: {numbers}", metrics=metrics)


def _hope(sight: Sight, name: str, found: Estimate) -> float:
    """Return the chance that a gain is proven by the last look, if in truth it were WANTED_GAIN: conditional power.

    With z at share t of the information, e the error expected at the end and d = gain / e: at the end z is normal with mean
    z sqrt(t) + d (1 - t) and variance 1 - t, and has to pass the last bound and min_gain / e.
    """
    share = sight.looks[-1].share
    if share >= 1:
        return 0.0
    error = found.error * math.sqrt(share)
    final = max(_last_limit(sight, name), math.log1p(sight.ladder.min_gain) / error)
    expected = found.z * math.sqrt(share) + math.log1p(WANTED_GAIN) / error * (1 - share)
    return float(special.ndtr((expected - final) / math.sqrt(1 - share)))


def _last_limit(sight: Sight, name: str) -> float:
    """Return the bound at the planned end, were the next look the last."""
    now = sight.looks[-1]
    end = max(now.information + 1, round(now.information / now.share))
    return bound(_error(sight, name), (*sight.looks, Look(information=end, share=1.0)))


def _left_open(sight: Sight, lever: Lever) -> Decision:
    metrics = compare(sight, lever.id)
    if not metrics:
        return Decision(
            lever=lever.id, verdict="inconclusive", why="its effect was never measured", metrics={}
        )
    numbers = [f"{name} {wording.spread(metrics[name])}" for name in sight.ladder.primary]
    numbers += [wording.bar(guard.metric, guard.most_loss, metrics) for guard in sight.ladder.guards]
    return Decision(
        lever=lever.id,
        verdict="inconclusive",
        why=f"neither proven nor futile after {sight.looks[-1].information} measured boots: "
        + "; ".join(numbers),
        metrics=metrics,
        wanted=_wanted(sight, lever.id),
    )


def _wanted(sight: Sight, lever: str) -> int | None:
    """Return the further boots that would prove the gain seen, or +4 % where that is more: 4 s^2 (z_error + z_power)^2 / gain^2."""
    needs: list[int] = []
    for name in sight.ladder.primary:
        found = sight.estimates[lever][name]
        passed = limit(sight, name)
        if math.isfinite(passed) and math.isfinite(found.scatter):
            gain = max(found.effect, math.log1p(WANTED_GAIN))
            quantiles = passed + float(special.ndtri(OPEN_POWER))
            boots = math.ceil(4 * (found.scatter * quantiles / gain) ** 2)
            needs.append(max(2, boots - sight.looks[-1].information))
    return min(needs, default=None)
