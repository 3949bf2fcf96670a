"""Outcome: how a step on the nodes ended, as a value. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.smoke import Smoked
from launcher.watermark import Trip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a step on the nodes ended: `fault` is empty when it did what it should.

    `unclear` marks a node that could not be asked: nothing can be said of what was booted. `trip` is why the guard stopped
    every rank, `lowest` how low each node's MemAvailable went while it watched (bytes).
    """

    fault: str = ""
    unclear: bool = False
    node: str = ""
    hint: str = ""
    log: tuple[str, ...] = ()
    smokes: tuple[Smoked, ...] = field(default=())
    trip: Trip | None = None
    remarks: tuple[str, ...] = ()
    """What the ranks' logs warn of although the line serves."""
    done: tuple[str, ...] = ()
    """Nodes on which the step did what it should."""
    lowest: Mapping[str, int] = field(default_factory=dict)
