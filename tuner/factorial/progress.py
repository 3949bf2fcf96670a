"""Progress of a factorial climb: its state, how it begins, and how a verdict is noted in it.

Nothing is in it but what follows from ladder, plan, seed and the boots so far.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tuner.factorial import blocks
from tuner.factorial.bounds import Look
from tuner.factorial.factors import needs, ordered
from tuner.factorial.judgement import Decision
from tuner.factorial.plan import Plan
from tuner.lever import Ladder
from tuner.steps import On, Trial
from tuner.verdict import MOST_VOIDS, Outcome, SeedRule, Verdict, seed_rule, unmeasured

Phase = Literal["arming", "blocks", "confirming", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a climb is.

    `trials` are the boots as judged (an outlier is void), `queue` the runs that are planned, the next one first, `runs`
    those of the blocks that are behind, lost ones among them, `drawn` the blocks so far, and `fresh` the place in
    `trials` where the confirmation begins. `asking` are levers that wait for a quality run
    of theirs, `asked` what came of those, '' for a boot that was lost.
    `broken` are pairs that never come up together; in `ladder` they exclude each other from then on.
    """

    ladder: Ladder
    plan: Plan
    seed: int
    phase: Phase
    queue: tuple[On, ...]
    trials: tuple[Trial, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    stack: On = ()
    looks: tuple[Look, ...] = ()
    runs: int = 0
    drawn: int = 0
    block_start: int = 0
    fresh: int = 0
    asking: On = ()
    asked: tuple[tuple[str, str], ...] = ()
    broken: tuple[tuple[str, str], ...] = ()
    fault: str = ""

    @property
    def out(self) -> On:
        """Levers with a verdict that are not part of the stack."""
        return tuple(one.lever for one in self.verdicts if one.lever not in self.stack)

    @property
    def open(self) -> On:
        """Levers without a verdict, in the ladder's order."""
        decided = {one.lever for one in self.verdicts}
        return tuple(lever.id for lever in self.ladder.levers if lever.id not in decided)


def start(ladder: Ladder, plan: Plan, seed: int) -> Progress:
    """Return a climb before its first boot."""
    why = "changes what is offered; it is chosen, not judged by speed"
    chosen = tuple(
        unmeasured(lever, "inconclusive", why) for lever in ladder.levers if lever.kind == "profile"
    )
    begun = Progress(
        ladder=ladder,
        plan=plan,
        seed=seed,
        phase="arming" if plan.arming == "alone" else "blocks",
        queue=blocks.arming(ladder, seed) if plan.arming == "alone" else ((),),
        verdicts=chosen,
    )
    return drop_orphans(begun) if begun.open else replace(begun, phase="ended", queue=())


def settle(
    progress: Progress, name: str, outcome: Outcome, why: str, found: Decision | None = None
) -> Progress:
    """Note a verdict; what it cost is every boot so far, since every boot counts for every lever."""
    verdict = Verdict(
        lever=name,
        verdict=outcome,
        metrics=found.metrics if found else {},
        boots=len(progress.trials),
        voids=sum(one.outcome == "void" for one in progress.trials),
        seed_rule=_seed_rule(progress, name, found.single if found else {}),
        why=why,
        wanted=found.wanted if found else None,
        by_line=found.by_line if found else {},
    )
    stack = (*progress.stack, name) if outcome == "accept" else progress.stack
    return replace(progress, verdicts=(*progress.verdicts, verdict), stack=stack)


def drop_orphans(progress: Progress) -> Progress:
    """Settle levers whose requirement was settled without being accepted, and take what is settled out of the queue."""
    for lever in progress.ladder.levers:
        lost = [name for name in lever.requires if name in progress.out]
        if lost and lever.id in progress.open:
            found = {one.lever: one.verdict for one in progress.verdicts}
            outcome: Outcome = "reject" if found[lost[0]] == "reject" else "inconclusive"
            progress = settle(progress, lever.id, outcome, f"needs {lost[0]}, which was not accepted")
    out = set(progress.out)
    return replace(progress, queue=tuple(run for run in progress.queue if not out & set(run)))


def alone(progress: Progress, name: str) -> On:
    """Return what is on when a lever is booted alone: it and what it requires."""
    return ordered(progress.ladder, {name, *needs(progress.ladder, name)})


def beside(progress: Progress, name: str) -> On:
    """Return what is on when a lever's quality is asked: the stack, it, and what it requires."""
    return ordered(progress.ladder, {*progress.stack, name, *needs(progress.ladder, name)})


def qualities(progress: Progress) -> Mapping[str, str]:
    """Return what is known of each lever's quality; one whose boots for it were lost too often could not be asked."""
    found = {name: told for name, told in progress.asked if told}
    for name in {name for name, _ in progress.asked} - set(found):
        if (lost := sum(one == name for one, _ in progress.asked)) > MOST_VOIDS:
            found[name] = f"nothing, since {lost} boots for it were lost"
    return found


def _seed_rule(progress: Progress, name: str, single: Mapping[str, float]) -> SeedRule:
    """Apply the seeds' rule to one boot of each arm: the lever alone against the base, or what the first boots read of it."""
    base, arm = _first(progress, ()), _first(progress, alone(progress, name))
    if base is not None and arm is not None and progress.plan.arming == "alone":
        return "reject" if arm.outcome == "failed" else seed_rule(progress.ladder, base.values, arm.values)
    if not single and any(name in one.arm and one.outcome == "failed" for one in progress.trials):
        return "reject"
    return seed_rule(progress.ladder, dict.fromkeys(single, 1.0), single)


def _first(progress: Progress, on: On) -> Trial | None:
    return next((one for one in progress.trials if one.arm == on and one.outcome != "void"), None)
