"""The factorial climb as a replay: from the boots so far to verdicts, stack, the next boot, or the end.

Arming pass, blocks with looks, confirmation. A climb that was broken off goes on from its recorded boots as if nothing had
happened: `advance` takes one boot, `replay` all of them.
"""

from dataclasses import replace
from functools import reduce

from tuner.factorial import blocks, confirmation, judgement, outliers, pairs, suspects
from tuner.factorial.estimates import estimate
from tuner.factorial.factors import factors, standing
from tuner.factorial.plan import Plan
from tuner.factorial.progress import Progress, alone, beside, drop_orphans, qualities, settle, start
from tuner.factorial.sight import Sight
from tuner.lever import Ladder
from tuner.steps import Boot, Confirmed, Done, On, Standing, Trial, name_of
from tuner.verdict import MOST_FAILURES, MOST_VOIDS

MOST_BASE_FAILURES = 3
MOST_BASE_VOIDS = 5
"""Boots of the base in a row that end a climb. Ours: of a hundred healthy lines one in ten of whose boots is void for its slow
state and one in thirty fails, two and three would end one."""

LOST_TO_ASK = 4
"""Boots of the blocks lost in a row after which the base is booted, to tell a broken line from broken levers. Ours."""


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
    if fault := _fault(progress):
        return replace(progress, fault=fault)
    match progress.phase:
        case "arming":
            return _armed(progress)
        case "blocks" if progress.asking:
            return _asked(progress)
        case "blocks":
            return _run(progress)
        case _:
            return _confirmed(progress)


def _next(progress: Progress) -> On:
    """Return what is on in the next boot: a proven lever whose quality is asked goes before the planned runs."""
    if progress.phase == "blocks" and progress.asking:
        return beside(progress, progress.asking[0])
    return progress.queue[0]


def _asked(progress: Progress) -> Progress:
    """Take a boot on which a lever's quality was asked, and look again."""
    name, last = progress.asking[0], progress.trials[-1]
    told = last.quality if last.outcome == "measured" else ""
    progress = replace(
        progress, runs=progress.runs + 1, asking=progress.asking[1:], asked=(*progress.asked, (name, told))
    )
    return progress if progress.asking else _onward(_looked(progress))


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


def _run(progress: Progress) -> Progress:
    """Take a run of a block: repeat a void one once, search for whom a lost one accuses, look where it is time to."""
    last = progress.trials[-1]
    if _is_repeated(progress):
        return progress
    progress = replace(progress, queue=progress.queue[1:], runs=progress.runs + 1)
    if last.outcome != "measured":
        progress = _accused(progress)
    progress = pairs.part(progress)
    wanted = _base_asked(progress)
    if wanted is None:
        wanted = suspects.search(progress.ladder, progress.trials, (*progress.out, *progress.stack))
    if wanted is not None:
        progress = replace(progress, queue=(wanted, *progress.queue))
    if progress.plan.is_look(progress.runs):
        progress = _looked(progress)
    return _onward(progress)


def _is_repeated(progress: Progress) -> bool:
    """Whether the run is booted again: a void one once, the base until it is measured or ends the climb."""
    last = progress.trials[-1]
    if last.outcome == "measured" or last.arm == ():
        return last.outcome != "measured"
    before = progress.trials[progress.block_start : -1][-1:]
    return last.outcome == "void" and not any(one.arm == last.arm and one.outcome == "void" for one in before)


def _base_asked(progress: Progress) -> On | None:
    """Ask for the base after boots lost in a row: it tells whether it is the line or what was on."""
    row = progress.trials[progress.block_start :][-LOST_TO_ASK:]
    return () if len(row) == LOST_TO_ASK and all(one.outcome != "measured" for one in row) else None


def _accused(progress: Progress) -> Progress:
    """Settle a lever that is found to break its boots."""
    found = suspects.culprit(progress.ladder, progress.trials, progress.out)
    if found is None:
        return progress
    word = "failed" if found.failed else "void"
    why = f"{word} {found.lost} times with nothing else suspect: {found.why}"
    return drop_orphans(settle(progress, found.lever, "reject" if found.failed else "inconclusive", why))


def _looked(progress: Progress) -> Progress:
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
    if not progress.queue:
        key = f"{progress.seed}/block/{progress.drawn}"
        groups = factors(progress.ladder, progress.open)
        runs = blocks.block(progress.ladder, groups, progress.stack, key)
        return replace(progress, queue=runs, drawn=progress.drawn + 1)
    out, stack = set(progress.out), set(progress.stack)
    kept = (pairs.apart(progress, (set(run) - out) | stack, at) for at, run in enumerate(progress.queue))
    return replace(progress, queue=tuple(standing(progress.ladder, run) for run in kept))


def _confirmed(progress: Progress) -> Progress:
    """Take a boot of the confirmation: a void one is repeated within the limit, a failed one is a result."""
    last, on = progress.trials[-1], progress.queue[0]
    voids = [one for one in progress.trials[progress.fresh :] if one.arm == on and one.outcome == "void"]
    if last.outcome == "void" and len(voids) <= MOST_VOIDS:
        return progress
    left = progress.queue[1:]
    return replace(progress, queue=left, phase="confirming" if left else "ended")


def _fault(progress: Progress) -> str:
    """Say why the climb ends where the line itself cannot be booted or measured."""
    last = progress.trials[-1]
    base = [one for one in progress.trials if one.arm == ()]
    for outcome, most in (("failed", MOST_BASE_FAILURES), ("void", MOST_BASE_VOIDS)):
        row = base[-most:]
        if last.arm == () and len(row) == most and all(one.outcome == outcome for one in row):
            return f"base {outcome} {most} times in a row: {last.why}"
    return ""
