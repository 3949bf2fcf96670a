"""Pairs: levers that come up alone and never together. From failed boots to the pair, and how the climb goes on around it."""

from dataclasses import replace
from itertools import combinations

from tuner.factorial.progress import Progress, drop_orphans, settle
from tuner.factorial.suspects import cleared
from tuner.lever import Ladder
from tuner.steps import Trial

FAILED_TO_PAIR = 3
"""Failed boots, and none measured, that show a pair: three chance failures are 1 in 37,000 where one boot in thirty fails."""


def part(progress: Progress) -> Progress:
    """Note a pair that never comes up together: its levers exclude each other from here on, and beside the stack one is out."""
    pair = broken_pair(progress.trials)
    if pair is None or pair in progress.broken:
        return progress
    progress = note(progress, pair)
    for name, other in (pair, pair[::-1]):
        if other in progress.stack and name in progress.open:
            why = f"never came up together with {other}, which was accepted"
            progress = drop_orphans(settle(progress, name, "reject", why))
    return progress


def note(progress: Progress, pair: tuple[str, str]) -> Progress:
    """Note a pair: its levers exclude each other from here on."""
    return replace(progress, ladder=_parted(progress.ladder, pair), broken=(*progress.broken, pair))


def apart(progress: Progress, run: set[str], at: int) -> set[str]:
    """Return a planned run without one of each broken pair, the one and the other by turns; what is in the stack stays."""
    for one, other in progress.broken:
        if {one, other} <= run:
            spare = [
                name for name in ((one, other) if at % 2 else (other, one)) if name not in progress.stack
            ]
            run = run - set(spare[:1])
    return run


def broken_pair(trials: tuple[Trial, ...]) -> tuple[str, str] | None:
    """Return two levers that failed in every boot they shared, three at least, though each was measured without the other.

    None while several pairs answer to that: half of a block's runs have a lever on and a quarter have two, so boots to come
    tell them apart within one block.
    """
    known = sorted(cleared(trials))
    measured = [set(one.arm) for one in trials if one.outcome == "measured"]
    failed = [set(one.arm) for one in trials if one.outcome == "failed"]
    found = [
        pair
        for pair in combinations(known, 2)
        if sum(set(pair) <= arm for arm in failed) >= FAILED_TO_PAIR
        and not any(set(pair) <= arm for arm in measured)
    ]
    return found[0] if len(found) == 1 else None


def _parted(ladder: Ladder, pair: tuple[str, str]) -> Ladder:
    """Return the ladder with two levers that exclude each other from here on."""
    one, other = pair
    levers = (
        replace(lever, conflicts=(*lever.conflicts, other)) if lever.id == one else lever
        for lever in ladder.levers
    )
    return replace(ladder, levers=tuple(levers))
