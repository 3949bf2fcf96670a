"""The factorial climb as a replay: from the boots so far to verdicts, stack, the next boot, or the end.

Arming pass, blocks with looks, confirmation. A climb that was broken off goes on from its recorded boots as if nothing had
happened: `advance` takes one boot, `replay` all of them.
"""

from dataclasses import replace
from functools import reduce

from tuner.factorial import blocks, confirmation, judgement, outliers, runs
from tuner.factorial.estimates import estimate
from tuner.factorial.factors import factors
from tuner.factorial.plan import Plan
from tuner.factorial.progress import Progress, alone, beside, drop_orphans, qualities, settle, start
from tuner.factorial.sight import Sight
from tuner.lever import Ladder
from tuner.steps import Boot, Confirmed, Done, On, Standing, Trial, name_of
from tuner.verdict import MOST_FAILURES, MOST_VOIDS


def replay(ladder: Ladder, plan: Plan, seed: int, history: tuple[Trial, ...]) -> Progress:
    """Return how far a climb is after these boots, in order."""
    return reduce(advance, history, start(ladder, plan, seed))


def standing_of(progress: Progress) -> Standing:
    """Return verdicts, stack and the next boot, in the shape that the climb takes from either design."""
    fresh = progress.trials[progress.fresh :]
    confirmed = (
        Confirmed(
            gain=confirmation.gain(progress.ladder, progress.stack, fresh),
            worth=confirmation.worth(progress.ladder, progress.stack, fresh),
            quality=next((one.quality for one in fresh if one.quality), ""),
        )
        if progress.phase == "ended" and progress.stack
        else None
    )
    return Standing(
        verdicts=progress.verdicts,
        stack=progress.stack,
        ahead=ahead(progress),
        confirmed=confirmed,
        broken=progress.broken,
    )


def ahead(progress: Progress) -> Boot | Done:
    """Return the next boot, or the end."""
    if progress.fault:
        return Done(base_failed=True, why=progress.fault)
    if progress.phase == "ended":
        return Done(base_failed=False, why="every lever has its verdict")
    on, number = _next(progress), len(progress.trials) + 1
    match progress.phase:
        case "arming":
            tested = [name for name in on if on == alone(progress, name)]
            reason = f"arming pass: {name_of(on)}, {len(progress.queue)} to go"
            return Boot(lever=tested[-1] if tested else None, on=on, number=number, reason=reason)
        case "blocks" if progress.asking:
            name = progress.asking[0]
            reason = f"{name}: its gain is proven; the quality battery is asked"
            return Boot(lever=name, on=on, number=number, reason=reason, quality=True)
        case "blocks":
            reason = f"block {progress.drawn}: run {progress.runs + 1} of at most {progress.plan.most}"
        case _:
            reason = f"confirmation: {name_of(on)}, {len(progress.queue)} to go"
            asked = any(one.quality for one in progress.trials[progress.fresh :] if one.arm == on)
            whole = frozenset(on) == frozenset(progress.stack)
            return Boot(lever=None, on=on, number=number, reason=reason, quality=whole and not asked)
    return Boot(lever=None, on=on, number=number, reason=reason)


def advance(progress: Progress, trial: Trial) -> Progress:
    """Return how far the climb is after one more boot; one that was not asked for counts as data and no more."""
    asked = progress.phase != "ended" and trial.arm == _next(progress)
    trials = (*progress.trials, outliers.sift(progress.ladder, progress.trials, trial))
    progress = replace(progress, trials=trials)
    if not asked or progress.fault:
        return progress
    if fault := runs.fault(progress):
        return replace(progress, fault=fault)
    match progress.phase:
        case "arming":
            return _armed(progress)
        case "blocks" if progress.asking:
            return _asked(progress)
        case "blocks":
            return _run(progress)
        case _:
            return runs.take_fresh(progress)


def _next(progress: Progress) -> On:
    """Return what is on in the next boot: a proven lever whose quality is asked goes before the planned runs."""
    if progress.phase == "blocks" and progress.asking:
        return beside(progress, progress.asking[0])
    return progress.queue[0]


def _armed(progress: Progress) -> Progress:
    """Take a boot of the arming pass: repeat it if it was void or failed, within limits; at its end draw the first block."""
    last, on = progress.trials[-1], progress.queue[0]
    name = next((one for one in reversed(on) if on == alone(progress, one)), None)
    ends = [one for one in progress.trials if one.arm == on]
    failures = [one for one in ends if one.outcome == "failed"]
    voids = [one for one in ends if one.outcome == "void"]
    if name and len(failures) >= MOST_FAILURES:
        why = f"failed {len(failures)} times with it alone: {failures[-1].why}"
        progress = drop_orphans(settle(progress, name, "reject", why))
    elif name and len(voids) > MOST_VOIDS:
        why = f"void {len(voids)} times with it alone: {voids[-1].why}"
        progress = drop_orphans(settle(progress, name, "inconclusive", why))
    elif last.outcome == "measured":
        progress = replace(progress, queue=progress.queue[1:])
    if progress.queue:
        return progress
    return _onward(replace(progress, phase="blocks", block_start=len(progress.trials)))


def _asked(progress: Progress) -> Progress:
    """Take a boot on which a lever's quality was asked, and look again."""
    progress = runs.take_asked(progress)
    return progress if progress.asking else _onward(looked(progress))


def _run(progress: Progress) -> Progress:
    """Take a run of a block: repeat a void one once, search for whom a lost one accuses, look where it is time to."""
    if runs.is_repeated(progress):
        return progress
    progress = runs.take(progress)
    if progress.plan.is_look(progress.runs):
        progress = looked(progress)
    return _onward(progress)


def looked(progress: Progress) -> Progress:
    """Judge all open levers on all boots so far."""
    progress = replace(progress, trials=outliers.sift_all(progress.ladder, progress.trials))
    measured = sum(one.outcome == "measured" for one in progress.trials[progress.block_start :])
    last = progress.runs >= progress.plan.most
    known = progress.looks[-1].information if progress.looks else 0
    if measured <= known and not last:
        return progress
    # A last look adds information even where every boot since the one before was lost: bounds are for rising information.
    looks = (*progress.looks, progress.plan.look(progress.runs, max(measured, known + 1)))
    sight = Sight(
        ladder=progress.ladder,
        plan=progress.plan,
        looks=looks,
        last=last,
        estimates=estimate(progress.ladder, progress.plan, progress.trials),
        stack=progress.stack,
        out=progress.out,
        quality=qualities(progress),
    )
    progress = replace(progress, looks=looks)
    for found in judgement.judge(sight):
        progress = settle(progress, found.lever, found.verdict, found.why, found)
    left = set(progress.open)
    return replace(progress, asking=tuple(name for name in judgement.asking(sight) if name in left))


def _onward(progress: Progress) -> Progress:
    """Fix what is decided in the runs that are planned; draw the next block, or go on to the confirmation."""
    if not progress.open:
        queue = confirmation.order(progress.ladder, progress.stack)
        return replace(
            progress, phase="confirming" if queue else "ended", queue=queue, fresh=len(progress.trials)
        )
    return runs.settled(progress) if progress.queue else draw(progress)


def draw(progress: Progress) -> Progress:
    """Draw the next block over what is open."""
    key = f"{progress.seed}/block/{progress.drawn}"
    groups = factors(progress.ladder, progress.open)
    planned = blocks.block(progress.ladder, groups, progress.stack, key)
    return replace(progress, queue=planned, drawn=progress.drawn + 1)
