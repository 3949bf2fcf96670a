"""State: what is known of the lines at work, folded from events. Pure.

One `Line` for each line that an event named, in the order in which they came; the fold never looks at a clock.
"""

from dataclasses import dataclass, replace

from sparkctl.live.event import (
    Began,
    Booted,
    Booting,
    Changed,
    Doing,
    Ended,
    Event,
    Judged,
    Staged,
    Stopping,
    Warned,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What one node does, and since which of the line's seconds."""

    name: str
    doing: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What runs: a boot with the stages that it has ended and the one that it is in, or the bench after it."""

    boot: Booting | None
    since_s: float
    since_at: str
    stage: str = ""
    stage_s: float = 0.0
    stages: tuple[Staged, ...] = ()
    doing: str = ""
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line at work: what began on it, what runs now, what came of its boots so far, what was decided, and how it ended."""

    name: str
    began: Began
    since_s: float
    since_at: str
    now: Now | None = None
    booted: tuple[Booted, ...] = ()
    judged: tuple[Judged, ...] = ()
    warned: tuple[str, ...] = ()
    stopping: str = ""
    ended: Ended | None = None

    @property
    def done(self) -> int:
        """How many boots count against the most: those on record before, and those since that say something."""
        return self.began.boots + sum(one.outcome != "unfit" for one in self.booted)

    @property
    def open(self) -> tuple[str, ...]:
        """The levers without a verdict."""
        told = {one.lever for one in self.judged}
        return tuple(lever for lever in self.began.levers if lever not in told)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All lines at work."""

    lines: tuple[Line, ...] = ()


def fold(state: State, event: Event) -> State:
    """Return the state after an event; one of a line that has not begun changes nothing."""
    if isinstance(event.what, Began):
        line = Line(
            name=event.line,
            began=event.what,
            since_s=event.s,
            since_at=event.at,
            judged=event.what.decided,
        )
        kept = tuple(one for one in state.lines if one.name != event.line)
        return State(lines=(*kept, line))
    return State(lines=tuple(_after(one, event) if one.name == event.line else one for one in state.lines))


def _after(line: Line, event: Event) -> Line:  # noqa: PLR0911 - one return a kind reads as the table it is
    match event.what:
        case Booting() as boot:
            return replace(line, now=Now(boot=boot, since_s=event.s, since_at=event.at))
        case Staged() | Doing():
            return replace(
                line, now=_busy(line.now or Now(boot=None, since_s=event.s, since_at=event.at), event)
            )
        case Booted() as booted:
            return replace(line, now=None, booted=(*line.booted, booted))
        case Judged() as verdict:
            others = tuple(one for one in line.judged if one.lever != verdict.lever)
            return replace(line, judged=(*others, verdict))
        case Warned(text=text) | Changed(text=text):
            return replace(line, warned=(*line.warned, text))
        case Stopping(promise=promise):
            return replace(line, stopping=promise)
        case Ended() as ended:
            return replace(line, now=None, ended=ended)
        case _:
            return line


def _busy(now: Now, event: Event) -> Now:
    match event.what:
        case Staged(state="began") as stage:
            return replace(now, stage=stage.stage, stage_s=event.s, doing=stage.title, nodes=())
        case Staged() as stage:
            return replace(now, stage="", doing="", nodes=(), stages=(*now.stages, stage))
        case Doing() as doing:
            told = now.doing if doing.nodes else doing.text
            return replace(now, doing=told, nodes=_nodes(now.nodes, doing.nodes, event.s))
        case _:
            return now


def _nodes(before: tuple[Node, ...], told: tuple[tuple[str, str], ...], s: float) -> tuple[Node, ...]:
    """Return what the nodes do: one that does the same (a share that grows is the same) does it since before."""
    known = {one.name: one for one in before}
    for name, doing in told:
        old = known.get(name)
        same = old is not None and _word(old.doing) == _word(doing)
        known[name] = Node(name=name, doing=doing, since_s=old.since_s if old and same else s)
    return tuple(known.values())


def _word(doing: str) -> str:
    return doing.partition(" (")[0]
