"""Credited: whose idea the levers of a ladder are, for climbs whose plan does not say so: from the ladder that ships, where it is the same."""

from collections.abc import Sequence

from ledger.best import best
from ledger.entry import Row
from ledger.render import Credits
from sparkctl import content, edge
from sparkctl.errors import SparkctlError
from tuner import lever as levers
from tuner.lever import Ladder


def credits_of(rows: Sequence[Row]) -> Credits:
    """Return the credits by the ladder's digest; a ladder that changed since, or is gone, is left out."""
    names = {one.climb.plan.ladder for one in best(rows) if not one.climb.plan.credits}
    found = filter(None, map(_ladder, sorted(names)))
    return {levers.digest(one): {lever.id: lever.credit for lever in one.levers} for one in found}


def _ladder(name: str) -> Ladder | None:
    try:
        return edge.read(content.ladder(name), Ladder)
    except SparkctlError:
        # A ledger outlives the ladders that it names.
        return None
