"""What probes brought back, as values: records, bundles, and the facts that parsers read out of them.

The facts themselves stand beside their parsers in bootcheck/probes/. Within them bytes are bytes, rates are bytes per second unless
the name says GB/s (10^9 bytes).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

from bootcheck.floors import Floors
from bootcheck.needs import Needs
from sparkctl.line import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One command that ran on one node, exactly as it ended; the unit of a bundle.

    `rc` is None when the command was not run (then `stderr` says why), 124 after its time limit, 127 when the tool
    is not there.
    """

    probe: str
    argv: tuple[str, ...]
    rc: int | None
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecords:
    """All records of one node; `unreachable` says why there are none.

    `failed` names what was to be done on a node that answers before it is looked at again, and why it could not be.
    """

    probes: tuple[Record, ...] = ()
    unreachable: str = ""
    failed: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a bundle must carry so that it can be judged elsewhere.

    `at` is the time in UTC, `version` that of the sparkctl that collected it, `left_out` the probes that nobody asked for.
    """

    at: str
    version: str
    line: Line
    needs: Needs
    floors: Floors
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What probe.yml collected: enough, with its context, to judge elsewhere."""

    schema: Literal[1] = 1
    context: Context
    nodes: Mapping[str, NodeRecords]
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The last lines of each rank's log, by node; for people, no gate reads them."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """The ledger's rows of the line's last boot."""

    def __post_init__(self) -> None:
        """Refuse records of a node that the line does not have: nothing could be said of them."""
        line = self.context.line
        known = [node.name for node in line.nodes]
        strangers = [name for name in self.nodes if name not in known]
        if strangers:
            wanted = f"wanted nodes of line {line.name} ({', '.join(known)})"
            raise ValueError(f"{wanted}, found records of {', '.join(strangers)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A probe whose answer could not be read: why, and the text as it was seen. Never a number, never zero.

    `lacks_tool` marks a command that is not on the node, `is_left_out` a probe that nobody asked for, `is_blind` one that did not
    run because the GPU was not quiet.
    """

    probe: str
    why: str
    seen: str = ""
    lacks_tool: bool = False
    is_left_out: bool = False
    is_blind: bool = False


def unread(record: Record, why: str) -> Unread:
    """Return what a parser gives for an answer that it cannot read: why, what a failed command said, and the text."""
    said = record.stderr.strip()
    told = f"{why}: {said}" if said and record.rc and said not in why else why
    return Unread(probe=record.probe, why=told, seen=record.stdout)


class Fact(Protocol):
    """What a parser reads out of a record; `probe` is the name of the probe it belongs to."""

    probe: ClassVar[str]


F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is known of one node: every probe's facts, by the probe's name; `unreachable` or `failed` say why there are none."""

    node: str
    read: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    unreachable: str = ""
    failed: str = ""
    hint: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the node was looked at."""
        return not (self.unreachable or self.failed)

    def one(self, kind: type[F]) -> F | Unread:
        """Return the fact of that kind, or why there is none."""
        found = self.all(kind)
        return found[0] if found else Unread(probe=kind.probe, why="not in the bundle")

    def all(self, kind: type[F]) -> tuple[F | Unread, ...]:
        """Return every fact of that kind, for a probe with several commands."""
        return tuple(cast("F | Unread", one) for one in self.read.get(kind.probe, ()))
