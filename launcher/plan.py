"""Plan: what a boot is to do, what it tells on the way, and how it ended, as values. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from bootcheck.findings import Finding
from bootcheck.floors import Floors
from launcher.capacity import Pin
from launcher.capacity.memory import Table
from launcher.command import RankCommand, launch_order, rank_commands
from launcher.evidence import Values
from launcher.progress import Stage as RankStage
from launcher.recipe import Recipe
from launcher.smoke import Smoked
from launcher.watermark import Limits
from sparkctl.line import Line
from sparkctl.units import GIB

State = Literal["began", "tells", "warns", "changes", "done", "failed"]
Stage = Literal["check", "settle", "launch", "ready", "stop"]

STAGES: tuple[tuple[Stage, str], ...] = (
    ("check", "probe every node and judge; nothing is touched"),
    ("settle", "stop what is left of this line, drop page cache, probe and judge again"),
    ("launch", "start every rank, in this order"),
    ("ready", "wait for every rank and the API, then ask the smokes"),
)

STOP: tuple[Stage, str] = ("stop", "stop every rank, since the line did not get ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a boot is doing: a stage began, tells or warns of something, or ended after so many of the line's seconds."""

    stage: Stage
    state: State
    detail: str = ""
    seconds: float = 0.0
    nodes: Mapping[str, str] = field(default_factory=dict)
    """What single nodes do, where that is known of each."""


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a boot needs to know before it starts."""

    boot: str
    line: Line
    recipe: Recipe
    floors: Floors
    start: Stage = "check"
    """Where to begin: a boot that was broken off goes on from what is proven."""
    accepted: frozenset[str] = frozenset()
    """Gates whose failure the owner takes upon himself; each is named in the record."""
    replaces: bool = False
    """Whether ranks of the line are expected to run, as between two boots of a climb; else that is worth a warning."""
    sought: tuple[str, ...] = ()
    """Texts to look for in the ranks' logs: what proves that a lever took effect."""
    apply: bool = False
    """Whether to raise running MTUs and set the line's kernel settings; never without being asked."""

    memory: Table | None = None
    """What every rank is predicted to hold; None for a model that nothing is known of."""

    def commands(self) -> tuple[RankCommand, ...]:
        """Every rank's command."""
        return rank_commands(self.recipe, self.line, self.boot)

    def launched(self) -> tuple[RankCommand, ...]:
        """Every rank's command in the order in which they start."""
        by_node = {one.node: one for one in self.commands()}
        return tuple(by_node[node.name] for node in launch_order(self.recipe, self.line))

    def limits(self) -> Limits:
        """When the guard acts while ranks load."""
        floor = self.floors.guard_available_gib
        return Limits(floor=floor.value * GIB, origin=floor.origin, mode=self.recipe.memory.guard)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """How a boot ended. `why` is empty when the line is ready; else stage, node, cause, remedy and the rank's log."""

    boot: str
    line: str
    stage: Stage
    findings: tuple[Finding, ...]
    seconds: float
    why: str = ""
    node: str = ""
    hint: str = ""
    log: tuple[str, ...] = ()
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The end of each rank's log, by node: stopping removed the containers that held it."""
    smokes: tuple[Smoked, ...] = ()
    evidence: Mapping[str, Values] = field(default_factory=dict)
    """What each rank's log proves, by node."""
    found: tuple[str, ...] = ()
    """Those of the plan's `sought` that stand in some rank's log."""
    pin: Pin | None = None
    """The KV cache that every rank could be pinned to; None where it is pinned or a rank did not say."""
    unclear: bool = False
    lowest: Mapping[str, int] = field(default_factory=dict)
    """How low each node's MemAvailable went while it loaded, in bytes: what a floor may be learnt from."""
    flushes: Mapping[str, int] = field(default_factory=dict)
    """How often page cache was dropped on a node while it loaded."""
    stages: Mapping[str, tuple[tuple[RankStage, float], ...]] = field(default_factory=dict)
    """By node what its rank went through, each with the line's seconds from the beginning of the stage `ready` to its own."""
    observed: tuple[str, ...] = ()
    """Where a guard that only observes would have stopped every rank."""

    @property
    def ok(self) -> bool:
        """Whether the line is ready."""
        return not self.why

    @property
    def blames_what_was_booted(self) -> bool:
        """Whether a boot that did not get ready says something of what was booted, and not only of the nodes."""
        return not self.unclear and self.stage not in {"check", "settle"}
