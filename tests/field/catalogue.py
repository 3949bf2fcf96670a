"""The catalogue of field cases: what each raw file is, who judges it, and what must come out. Read through the product's edge."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sparkctl import edge

FOLDER = Path(__file__).parent
RAW = FOLDER / "raw"
NODES = tuple(f"spark-a{rank}" for rank in range(4))

QUIET = frozenset({"pass", "nothing", "waits", "flush", "information"})
"""Verdicts that ask nothing of anybody, so that they need no remedy."""

GRAVE = frozenset({"fail", "unknown", "fault", "trip", "stuck", "unclear"})
"""Verdicts that stop a boot, or say that it cannot be told whether it may go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one part of the product says: `by` is a gate, a trouble of a log or a guard, `node` where there is one."""

    by: str
    verdict: str
    said: str
    hint: str = ""
    node: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What must come out: the same for every one of `nodes`, with these pieces of text and these figures in it."""

    by: str
    verdict: str
    said: tuple[str, ...] = ()
    hint: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One way in which the product meets the text; `given` is for the judge of that name, `about` tells a later look apart."""

    judge: str
    expect: tuple[Wanted, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    about: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the text was put on: what is wanted without a node is wanted of these."""
        if self.judge == "answer":
            return (self.given["node"],)
        if self.judge != "line":
            return ("",)
        named = self.given.get("at", {"every": {}})
        return NODES[: self.given.get("size", len(NODES))] if "every" in named else tuple(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One raw file.

    `mark` tells how it came about: L ran here, M is modelled on a public output, S is composed to a tool's format. `mate` is a
    file of the same tool that tells the opposite. `lies` marks an alarm that is none, or a green light that is none.
    """

    file: str
    mark: Literal["L", "M", "S"]
    source: str
    about: str
    looks: tuple[Look, ...]
    mate: str = ""
    lies: Literal["", "alarm", "green"] = ""

    @property
    def text(self) -> str:
        """The raw text."""
        return (RAW / self.file).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the catalogue: its letter, what it is about, its cases."""

    part: str
    title: str
    cases: tuple[Case, ...]


def parts() -> tuple[Part, ...]:
    """Return every part, in the order of its letter."""
    return tuple(edge.read(path, Part) for path in sorted((FOLDER / "cases").glob("*.yml")))


def cases() -> dict[str, Case]:
    """Return every case by its file."""
    return {case.file: case for part in parts() for case in part.cases}
