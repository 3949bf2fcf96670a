"""The evidence on one lever and what it comes to: accept, reject, inconclusive, or not yet; docs/method.md tells the rule in words.

Takes the ladder's bars and the evidence gathered so far, gives a verdict whose `why` names the numbers that decided,
or None while the next boot may still tell.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sparkctl.units import percent
from tuner.lever import Guard, Ladder, Lever
from tuner.statistics import Comparison, boots_wanted, compare, spread
from tuner.verdict import FAILS, MOST_FAILURES, MOST_VOIDS, Outcome, SeedRule, Verdict, with_quality

FUTILE_ERRORS = 1.25
FUTILE_MARGIN = 0.01
"""A primary is given up once estimate + 1.25 standard errors stays below min_gain + 1 % (+3 % for a bar of +2 %).

Not binding: it can only cost power, never add a false accept. Ours, simulated by benchmarks/thin_rule.py.
"""

GUARD_CONFIDENCE = 0.90
"""Two-sided, so each bound is a one-sided 95 %. Ours, simulated by benchmarks/thin_rule.py."""

WANTED_POWER = 0.80
WANTED_GAIN = 0.04
"""Further boots are planned to prove the gain seen, or +4 % if it is smaller. Ours; no verdict rests on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one lever.

    `samples` holds, by metric and by configuration, every measured boot of the climb; `arm` and `base` name the two
    configurations in question. `failures` and `voids` are the reasons given by boots with the lever on; `boots` and
    `void_boots` count what was spent on this lever on either arm. `look` is set when both arms have just reached a
    number of boots at which the ladder looks, `last` when there is no later look. `quality` is what a quality run of the lever's
    configuration amounts to, '' where there was none.
    """

    arm: str
    base: str
    samples: Mapping[str, Mapping[str, tuple[float, ...]]]
    failures: tuple[str, ...]
    voids: tuple[str, ...]
    boots: int
    void_boots: int
    look: bool
    last: bool
    seed_rule: SeedRule
    quality: str = ""


def judge(ladder: Ladder, lever: Lever, evidence: Evidence) -> Verdict | None:
    """Return the verdict on a lever, or None while it is open and has boots left."""
    found = _spoilt(evidence)
    if found is None and not evidence.look:
        return None
    primaries = _compared(evidence, ladder.primary, 1 - 2 * alpha(ladder))
    guards = _compared(evidence, tuple(guard.metric for guard in ladder.guards), GUARD_CONFIDENCE)
    found = found or _weighed(ladder, primaries, guards)
    if found is None and evidence.last:
        found = "inconclusive", _open_why(ladder, primaries, guards)
    if found is None:
        return None
    if found[0] == "accept" and asks_quality(lever, evidence):
        return None
    outcome, why = with_quality(lever, evidence.quality, found)
    return Verdict(
        lever=lever.id,
        verdict=outcome,
        metrics=guards | primaries,
        boots=evidence.boots,
        voids=evidence.void_boots,
        seed_rule=evidence.seed_rule,
        why=why,
        wanted=_wanted(ladder, primaries, guards) if outcome == "inconclusive" else None,
    )


def asks_quality(lever: Lever, evidence: Evidence) -> bool:
    """Whether nothing but a quality run stands between a lever and its verdict: it is meant to change numerics."""
    return lever.numerics and not evidence.quality


def alpha(ladder: Ladder) -> float:
    """Return the one-sided error of a single look at one primary of one lever.

    Bonferroni: ladder.error / (levers x primaries x looks). By the union bound the chance that any useless lever of
    the ladder is accepted at any look is then at most ladder.error, however the looks depend on each other.
    """
    return ladder.error / (len(ladder.levers) * len(ladder.primary) * ladder.boots.looks)


def _compared(evidence: Evidence, names: tuple[str, ...], confidence: float) -> dict[str, Comparison]:
    """Compare the two arms on each metric that both have been measured on."""
    return {
        name: compare(samples, evidence.arm, evidence.base, confidence)
        for name in names
        if (samples := evidence.samples.get(name, {})).get(evidence.arm) and samples.get(evidence.base)
    }


def _spoilt(evidence: Evidence) -> tuple[Outcome, str] | None:
    """Decide on what went wrong rather than on what was measured."""
    if evidence.quality == "fails":
        return "reject", FAILS
    if len(evidence.failures) >= MOST_FAILURES:
        return "reject", f"failed {len(evidence.failures)} times with it on: {evidence.failures[-1]}"
    if len(evidence.voids) > MOST_VOIDS:
        return "inconclusive", f"void {len(evidence.voids)} times with it on: {evidence.voids[-1]}"
    return None


def _weighed(
    ladder: Ladder, primaries: Mapping[str, Comparison], guards: Mapping[str, Comparison]
) -> tuple[Outcome, str] | None:
    """Decide on the numbers of a look; guards go first, proof second, futility last."""
    broken = [f"{_bound(guard, guards)}, surely" for guard in ladder.guards if _is_broken(guard, guards)]
    if broken:
        return "reject", "guard broken: " + "; ".join(broken)
    winners = [name for name, found in primaries.items() if _is_won(ladder, found)]
    if winners and all(_is_held(guard, guards) for guard in ladder.guards):
        proofs = [f"{name} {spread(primaries[name])}" for name in winners]
        bars = [_bound(guard, guards) for guard in ladder.guards]
        return "accept", f"gain proven at error {alpha(ladder):.2g}: " + "; ".join([*proofs, *bars])
    if len(primaries) == len(ladder.primary) and all(_is_futile(ladder, one) for one in primaries.values()):
        numbers = "; ".join(f"{name} {spread(found)}" for name, found in primaries.items())
        harmed = [name for name, found in primaries.items() if found.high < 1]
        cause = (
            f"harm on {', '.join(harmed)}"
            if harmed
            else f"no gain of {percent(1 + ladder.min_gain)} in sight"
        )
        return "reject", f"{cause}: {numbers}"
    return None


def _is_won(ladder: Ladder, found: Comparison) -> bool:
    return found.low > 1 and found.estimate >= 1 + ladder.min_gain


def _is_futile(ladder: Ladder, found: Comparison) -> bool:
    """Whether a gain that matters is out of sight; never without an estimate of the noise."""
    bar = math.log(1 + ladder.min_gain + FUTILE_MARGIN)
    return math.log(found.estimate) + FUTILE_ERRORS * found.error < bar


def _is_held(guard: Guard, guards: Mapping[str, Comparison]) -> bool:
    return guard.metric in guards and guards[guard.metric].low > 1 - guard.most_loss


def _is_broken(guard: Guard, guards: Mapping[str, Comparison]) -> bool:
    return guard.metric in guards and guards[guard.metric].high < 1 - guard.most_loss


def _open_why(ladder: Ladder, primaries: Mapping[str, Comparison], guards: Mapping[str, Comparison]) -> str:
    numbers = [f"{name} {spread(found)}" for name, found in primaries.items()]
    numbers += [_bound(guard, guards) for guard in ladder.guards if not _is_held(guard, guards)]
    return f"neither proven nor futile after {ladder.boots.most} boots of each arm: " + "; ".join(numbers)


def _wanted(
    ladder: Ladder, primaries: Mapping[str, Comparison], guards: Mapping[str, Comparison]
) -> int | None:
    """Return the further boots, of both arms together, that would decide with a power of 80 %; None if not known."""
    needs: list[int] = []
    for found in primaries.values():
        if not _is_won(ladder, found) and not _is_futile(ladder, found) and found.degrees:
            effect = max(math.log(found.estimate), math.log(1 + WANTED_GAIN))
            needs.append(_further(found, effect, alpha(ladder)))
    cheapest = [] if any(_is_won(ladder, found) for found in primaries.values()) else [min(needs, default=0)]
    for guard in ladder.guards:
        found_guard = guards.get(guard.metric)
        if found_guard and found_guard.degrees and not _is_held(guard, guards):
            effect = math.log(found_guard.estimate / (1 - guard.most_loss))
            cheapest.append(_further(found_guard, abs(effect), (1 - GUARD_CONFIDENCE) / 2))
    return max(cheapest, default=0) or None


def _further(found: Comparison, effect: float, error: float) -> int:
    """Return at least 2, for an arm that is open needs one more boot of each whatever the plan says."""
    if effect == 0:
        return 2
    wanted = boots_wanted(found.scatter, effect, error, WANTED_POWER)
    return max(2, 2 * wanted - found.n_arm - found.n_base)


def _bound(guard: Guard, guards: Mapping[str, Comparison]) -> str:
    if guard.metric not in guards:
        return f"{guard.metric} not measured"
    return f"{guard.metric} {spread(guards[guard.metric])}, bar {percent(1 - guard.most_loss)}"
