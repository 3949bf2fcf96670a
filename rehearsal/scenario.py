"""Scenarios: what a practice cluster shows and hides. Read from `scenarios/` through the edge.

`scenarios/<name>.yml` is a whole cluster's weather; `scenarios/<section>/<name>.yml` says one fault, and all else is as in
`healthy`. The effects of levers are the same under every scenario (`levers.yml`); a scenario may add its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from rehearsal.model import Noise, Speed
from rehearsal.traits import RankFault, SshFault, SudoFault, Traits
from sparkctl import edge
from sparkctl.errors import UsageFault
from sparkctl.nearest import nearest

__all__ = [
    "Lever",
    "RankFault",
    "Scenario",
    "Section",
    "SshFault",
    "SudoFault",
    "Traits",
    "levers",
    "named",
    "scenarios",
]

_HERE = Path(__file__).parent / "scenarios"
_LIKE = "healthy"
_SEED_APART = 1_000
"""Between the seeds of two lines: tests and scenarios use small ones."""

Section = Literal["", "memory", "gpu", "fabric", "parity", "leftovers", "security", "guard", "bench", "ssh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """What settings do to a practice line; simulated."""

    when: Mapping[str, bool | int | float | str]
    """Recipe keys that the ranks can see: `args.<flag>` or `env.<NAME>`; all must match."""
    effect: Speed = field(default_factory=Speed)
    breaks: Literal["", "garble", "start"] = ""
    damage: float = 0.0
    """What it does to probabilities, see `rehearsal.engine.likelihood`; words and tasks stay as they are."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """What line B of a practice cluster has of its own; all else is as on line A."""

    speed: Speed = field(default_factory=Speed)
    noise: Noise | None = None
    """None: as line A's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One practice cluster's weather, or, from `of_line`, one line's."""

    schema: Literal[1]
    name: str
    about: str
    pace: float
    """How many of the line's seconds pass in one of ours."""
    seed: int
    boot_s: float
    """Start to ready, in the line's seconds; far below a real GB10's 8 to 13 minutes so that practice stays short."""
    noise: Noise
    noise_source: str
    speed: Speed = field(default_factory=Speed)
    """What the line is faster by than the model, before any lever."""
    second: Second | None = None
    """Line B; None where the cluster is line A alone."""
    nodes: Mapping[str, Traits] = field(default_factory=dict)
    """By name, of every line."""
    levers: tuple[Lever, ...] = ()
    recipe: str = ""
    """What the line serves: a file of rehearsal/recipes; empty for the recipe that ships."""
    section: Section = ""
    """What part of the ritual the fault belongs to; empty where there is no fault."""
    fault: str = ""
    """What is wrong, in a line; empty where nothing is."""
    gate: str = ""
    """The gate, or the stage of a boot, that is to say so; empty where what looks like a fault is none."""
    ends: Literal[0, 1, 3] = 0
    """How `sparkctl boot` ends: 0 where settling cures the fault or it is worth no more than a warning."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The names of its lines."""
        return ("A", "B") if self.second else ("A",)

    def of_line(self, name: str) -> "Scenario":
        """Return what holds on one of its lines; each draws from a seed of its own."""
        if self.second is None or name == "A":
            return replace(self, second=None)
        own = self.second
        return replace(
            self, seed=self.seed + _SEED_APART, speed=own.speed, noise=own.noise or self.noise, second=None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """One fault, as its file has it."""

    schema: Literal[1]
    name: str
    fault: str
    gate: str
    ends: Literal[0, 1, 3]
    nodes: Mapping[str, Traits]
    recipe: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levers:
    schema: Literal[1]
    levers: tuple[Lever, ...]


def scenarios() -> tuple[Scenario, ...]:
    """Return every scenario, by name."""
    return tuple(_read(path) for _, path in sorted(_files().items()))


def named(name: str) -> Scenario:
    """Return one scenario; an unknown name is a UsageFault that lists those that exist."""
    found = _files()
    if name not in found:
        raise UsageFault(
            f"scenario {name!r} is not one of {', '.join(sorted(found))}{nearest(name, found)}",
            hint="name one of these; `sparkctl rehearse scenarios` says what each does",
        )
    return _read(found[name])


def levers(of: Scenario) -> tuple[Lever, ...]:
    """Return the effects of levers under a scenario: those that hold everywhere, then its own."""
    return edge.read(_HERE.parent / "levers.yml", _Levers).levers + of.levers


def _files() -> dict[str, Path]:
    return {path.stem: path for path in (*_HERE.glob("*.yml"), *_HERE.glob("*/*.yml"))}


def _read(path: Path) -> Scenario:
    if path.parent == _HERE:
        return edge.read(path, Scenario)
    told = edge.read(path, _Fault)
    return replace(
        edge.read(_HERE / f"{_LIKE}.yml", Scenario),
        name=told.name,
        about=told.fault,
        section=cast("Section", path.parent.name),
        fault=told.fault,
        gate=told.gate,
        ends=told.ends,
        nodes=told.nodes,
        recipe=told.recipe,
    )
