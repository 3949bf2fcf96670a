"""Outcome: how a step on the nodes ended, as a value. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.evidence import Values
from launcher.progress import Stage
from launcher.smoke import Smoked
from launcher.watermark import Trip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a step on the nodes ended: `fault` is empty when it did what it should.

    `unclear` marks a node that could not be asked: nothing can be said of what was booted. `trip` is why the guard stopped
    every rank; the last three are what it saw meanwhile.
    """

    fault: str = ""
    unclear: bool = False
    node: str = ""
    hint: str = ""
    log: tuple[str, ...] = ()
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The end of each rank's log, by node, read before the ranks were removed."""
    smokes: tuple[Smoked, ...] = field(default=())
    evidence: Mapping[str, Values] = field(default_factory=dict)
    """What each rank's log proves, by node."""
    found: tuple[str, ...] = ()
    """Those of the texts that were looked for that stand in some rank's log."""
    trip: Trip | None = None
    remarks: tuple[str, ...] = ()
    """What the ranks' logs warn of although the line serves."""
    done: tuple[str, ...] = ()
    """Nodes on which the step did what it should."""
    lowest: Mapping[str, int] = field(default_factory=dict)
    """How low each node's MemAvailable went, in bytes."""
    flushes: Mapping[str, int] = field(default_factory=dict)
    """How often page cache was dropped on a node; nodes without a flush are left out."""
    stages: Mapping[str, tuple[tuple[Stage, float], ...]] = field(default_factory=dict)
    """By node the stages that its rank went through, each with the line's seconds from the wait's beginning to its own."""
    observed: tuple[str, ...] = ()
    """Where and why a guard that only observes would have stopped every rank, a sentence each."""
