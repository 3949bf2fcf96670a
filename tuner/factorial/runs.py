"""Runs: what one finished boot of a block or of the confirmation does to a climb: repeat it, search for whom it accuses, or go on.

Whether it is then time to look is the business of whoever asks: `replay` for one line, `together` for several.
"""

from dataclasses import replace

from tuner.factorial import pairs, suspects
from tuner.factorial.factors import standing
from tuner.factorial.progress import Progress, drop_orphans, settle
from tuner.steps import On
from tuner.verdict import MOST_VOIDS

MOST_BASE_FAILURES = 3
MOST_BASE_VOIDS = 5
"""Boots of the base in a row that end a climb. Ours: of a hundred healthy lines one in ten of whose boots is void for its slow
state and one in thirty fails, two and three would end one."""

LOST_TO_ASK = 4
"""Boots of the blocks lost in a row after which the base is booted, to tell a broken line from broken levers. Ours."""


def take(progress: Progress) -> Progress:
    """Take a run that is not repeated out of the queue, and put what it asks for into it."""
    last = progress.trials[-1]
    progress = replace(progress, queue=progress.queue[1:], runs=progress.runs + 1)
    if last.outcome != "measured":
        progress = _accused(progress)
    progress = pairs.part(progress)
    wanted = _base_asked(progress)
    if wanted is None:
        wanted = suspects.search(progress.ladder, progress.trials, (*progress.out, *progress.stack))
    return progress if wanted is None else replace(progress, queue=(wanted, *progress.queue))


def take_asked(progress: Progress) -> Progress:
    """Take a boot on which a lever's quality was asked."""
    name, last = progress.asking[0], progress.trials[-1]
    told = last.quality if last.outcome == "measured" else ""
    return replace(
        progress, runs=progress.runs + 1, asking=progress.asking[1:], asked=(*progress.asked, (name, told))
    )


def take_fresh(progress: Progress) -> Progress:
    """Take a boot of the confirmation: a void one is repeated within the limit, a failed one is a result."""
    last, on = progress.trials[-1], progress.queue[0]
    voids = [one for one in progress.trials[progress.fresh :] if one.arm == on and one.outcome == "void"]
    if last.outcome == "void" and len(voids) <= MOST_VOIDS:
        return progress
    left = progress.queue[1:]
    return replace(progress, queue=left, phase="confirming" if left else "ended")


def settled(progress: Progress) -> Progress:
    """Fix what is decided in the runs that are planned."""
    out, stack = set(progress.out), set(progress.stack)
    kept = (pairs.apart(progress, (set(run) - out) | stack, at) for at, run in enumerate(progress.queue))
    return replace(progress, queue=tuple(standing(progress.ladder, run) for run in kept))


def is_repeated(progress: Progress) -> bool:
    """Whether the run is booted again: a void one once, the base until it is measured or ends the climb."""
    last = progress.trials[-1]
    if last.outcome == "measured" or last.arm == ():
        return last.outcome != "measured"
    before = progress.trials[progress.block_start : -1][-1:]
    return last.outcome == "void" and not any(one.arm == last.arm and one.outcome == "void" for one in before)


def fault(progress: Progress) -> str:
    """Say why the climb ends where the line itself cannot be booted or measured."""
    last = progress.trials[-1]
    base = [one for one in progress.trials if one.arm == ()]
    for outcome, most in (("failed", MOST_BASE_FAILURES), ("void", MOST_BASE_VOIDS)):
        row = base[-most:]
        if last.arm == () and len(row) == most and all(one.outcome == outcome for one in row):
            return f"base {outcome} {most} times in a row: {last.why}"
    return ""


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
