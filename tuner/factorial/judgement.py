"""The judgement at a look: from what is seen to verdicts on the levers that are decided; docs/method.md tells the rule.

Accepting a lever lowers the bounds of the others, so a look is judged again after each.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkctl.units import percent
from tuner.factorial import sight as seen
from tuner.factorial.factors import rivals
from tuner.factorial.sight import Sight
from tuner.lever import Lever
from tuner.statistics import Comparison, spread
from tuner.steps import On
from tuner.verdict import Outcome, with_quality


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided on a lever at a look, from which numbers, and the further boots it asks for.

    `single` is what one boot of each arm read, as a ratio by metric (see `Estimate.single`).
    """

    lever: str
    verdict: Outcome
    why: str
    metrics: Mapping[str, Comparison]
    single: Mapping[str, float]
    wanted: int | None = None
    by_line: Mapping[str, Mapping[str, Comparison]] = field(default_factory=dict)


def judge(sight: Sight) -> tuple[Decision, ...]:
    """Return the decisions of a look: accepted levers, the strongest first, then rejected ones, at the last look open ones."""
    decisions = [_divided(sight, lever) for lever in sight.open if _is_divided(sight, lever)]
    sight = sight.after(rejected=tuple(one.lever for one in decisions))
    while (lever := _best(sight)) is not None:
        proven = _accepted(sight, lever)
        if proven.verdict == "accept":
            beaten = _beaten(sight, lever)
            decisions += [proven, *beaten]
            sight = sight.after(accepted=(lever.id,), rejected=tuple(one.lever for one in beaten))
        else:
            decisions.append(proven)
            sight = sight.after(rejected=(lever.id,))
    given_up = tuple(found for lever in sight.open if (found := _given_up(sight, lever)) is not None)
    sight = sight.after(rejected=tuple(one.lever for one in given_up))
    orphans = _orphans(sight)
    sight = sight.after(rejected=tuple(one.lever for one in orphans))
    asked = asking(sight)
    left = (
        tuple(_left_open(sight, lever) for lever in sight.open if lever.id not in asked) if sight.last else ()
    )
    return (*decisions, *given_up, *orphans, *left)


def _is_divided(sight: Sight, lever: Lever) -> bool:
    """Whether a gain is proven over both lines together that is a loss on one of them."""
    return bool(set(seen.winners(sight, lever.id)) & set(seen.divided(sight, lever.id)))


def _divided(sight: Sight, lever: Lever) -> Decision:
    """Leave a lever open that one line would gain by and the other lose."""
    return _decision(
        sight, lever, "inconclusive", "proven over both lines together, and not for each of them"
    )


def _apart(sight: Sight, lever: Lever) -> str:
    found = seen.by_line(sight, lever.id)
    return "; ".join(
        f"the lines disagree on {name}: "
        + ", ".join(f"{spread(metrics[name])} on {line}" for line, metrics in found.items())
        for name in seen.divided(sight, lever.id)
    )


def _with(why: str, apart: str) -> str:
    return f"{why}; {apart}; climb each line by itself to judge it there" if apart else why


def asking(sight: Sight) -> On:
    """Return the levers whose gain is proven and whose quality is to be asked before they are accepted."""
    return tuple(lever.id for lever in sight.open if _is_unasked(sight, lever) and _is_ready(sight, lever))


def _is_unasked(sight: Sight, lever: Lever) -> bool:
    return lever.numerics and not sight.quality.get(lever.id)


def _best(sight: Sight) -> Lever | None:
    """Return the strongest lever that is to be decided by its gain now."""
    ready = [lever for lever in sight.open if not _is_unasked(sight, lever) and _is_ready(sight, lever)]
    return max(ready, key=lambda lever: seen.mean_gain(sight, lever.id), default=None)


def _is_ready(sight: Sight, lever: Lever) -> bool:
    """Whether a lever is proven, keeps its guards, has what it requires, and no rival reads higher.

    While a rival that reads higher is not proven the lever waits for it, until the last look.
    """
    if not seen.winners(sight, lever.id) or not set(lever.requires) <= set(sight.stack):
        return False
    if not all(seen.is_held(sight, lever.id, guard) for guard in sight.ladder.guards):
        return False
    gain = seen.mean_gain(sight, lever.id)
    against = [one.id for one in sight.open if one.id in rivals(sight.ladder, lever.id)]
    return sight.last or all(seen.mean_gain(sight, other) <= gain for other in against)


def _accepted(sight: Sight, lever: Lever) -> Decision:
    metrics = seen.compare(sight, lever.id)
    numbers = [f"{name} {spread(metrics[name])}" for name in seen.winners(sight, lever.id)]
    error = f"{sight.ladder.error:.0%} for the whole ladder"
    why = f"gain proven at error {error}: {'; '.join([*numbers, *_bars(sight, metrics)])}"
    outcome, why = with_quality(lever, sight.quality.get(lever.id, ""), ("accept", why))
    return _decision(sight, lever, outcome, why)


def _beaten(sight: Sight, winner: Lever) -> tuple[Decision, ...]:
    """Reject what cannot stand beside a lever that is accepted."""
    against = rivals(sight.ladder, winner.id)
    why = f"cannot stand beside {winner.id}, which was accepted"
    return tuple(_decision(sight, lever, "reject", why) for lever in sight.open if lever.id in against)


def _given_up(sight: Sight, lever: Lever) -> Decision | None:
    found = sight.estimates.get(lever.id)
    if found is None or not all(one.degrees for one in found.values()):
        return None
    metrics = seen.compare(sight, lever.id)
    if any(seen.is_lost(sight, lever.id, guard) for guard in sight.ladder.guards):
        return _decision(sight, lever, "reject", f"guard broken: {'; '.join(_bars(sight, metrics))}")
    if not seen.is_futile(sight, lever.id):
        return None
    harmed = seen.losers(sight, lever.id)
    cause = (
        f"harm on {', '.join(harmed)}"
        if harmed
        else f"no gain of {percent(1 + sight.ladder.min_gain)} in sight"
    )
    numbers = "; ".join(f"{name} {spread(metrics[name])}" for name in sight.ladder.primary)
    outcome: Outcome = "inconclusive" if seen.divided(sight, lever.id) else "reject"
    return _decision(sight, lever, outcome, f"{cause}: {numbers}")


def _orphans(sight: Sight) -> tuple[Decision, ...]:
    """Reject what requires a lever that is out."""
    found: list[Decision] = []
    out = set(sight.out)
    for lever in sight.open:
        lost = [name for name in lever.requires if name in out]
        if lost:
            out.add(lever.id)
            found.append(_decision(sight, lever, "reject", f"needs {lost[0]}, which was not accepted"))
    return tuple(found)


def _left_open(sight: Sight, lever: Lever) -> Decision:
    metrics = seen.compare(sight, lever.id)
    if not metrics:
        return _decision(sight, lever, "inconclusive", "its effect was never measured")
    numbers = [f"{name} {spread(metrics[name])}" for name in sight.ladder.primary]
    boots = sight.looks[-1].information
    why = f"neither proven nor futile after {boots} measured boots: {'; '.join([*numbers, *_bars(sight, metrics)])}"
    return _decision(sight, lever, "inconclusive", why, seen.boots_wanted(sight, lever.id))


def _decision(sight: Sight, lever: Lever, verdict: Outcome, why: str, wanted: int | None = None) -> Decision:
    found = sight.estimates.get(lever.id, {})
    return Decision(
        lever=lever.id,
        verdict=verdict,
        why=_with(why, _apart(sight, lever)),
        metrics=seen.compare(sight, lever.id),
        single={name: math.exp(one.single) for name, one in found.items()},
        wanted=wanted,
        by_line=seen.by_line(sight, lever.id),
    )


def _bars(sight: Sight, metrics: Mapping[str, Comparison]) -> list[str]:
    return [
        f"{guard.metric} {spread(metrics[guard.metric])}, bar {percent(1 - guard.most_loss)}"
        for guard in sight.ladder.guards
    ]
