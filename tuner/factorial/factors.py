"""Factors: what is varied between boots. A lever alone, or levers that exclude each other, of which at most one is on."""

from collections.abc import Collection

from tuner.lever import Ladder
from tuner.steps import On

Factor = tuple[str, ...]
"""The ids of levers of which at most one is on in a boot."""


def factors(ladder: Ladder, levers: Collection[str]) -> tuple[Factor, ...]:
    """Group levers into factors: whoever conflicts, directly or through others, shares one."""
    groups: list[list[str]] = []
    for lever in ladder.levers:
        if lever.id in levers:
            joined = [group for group in groups if any(_conflict(ladder, lever.id, other) for other in group)]
            groups = [group for group in groups if group not in joined]
            groups.append([*(name for group in joined for name in group), lever.id])
    return tuple(tuple(group) for group in groups)


def needs(ladder: Ladder, name: str) -> On:
    """Return what a lever requires, directly and through others, in the ladder's order."""
    found = {name}
    for lever in reversed(ladder.levers):
        if lever.id in found:
            found |= set(lever.requires)
    return ordered(ladder, found - {name})


def rivals(ladder: Ladder, name: str) -> On:
    """Return the levers that cannot stand beside this one."""
    return tuple(lever.id for lever in ladder.levers if _conflict(ladder, name, lever.id))


def ordered(ladder: Ladder, names: Collection[str]) -> On:
    """Return levers in the ladder's order."""
    return tuple(lever.id for lever in ladder.levers if lever.id in names)


def standing(ladder: Ladder, names: Collection[str]) -> On:
    """Return those levers, in the ladder's order, whose requirements are on as well: a lever exists only where its parent is."""
    on: list[str] = []
    for lever in ladder.levers:
        if lever.id in names and set(lever.requires) <= set(on):
            on.append(lever.id)
    return tuple(on)


def _conflict(ladder: Ladder, one: str, other: str) -> bool:
    found = {lever.id: lever.conflicts for lever in ladder.levers}
    return one != other and (one in found[other] or other in found[one])
