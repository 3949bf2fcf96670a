"""Events of a boot or a climb: what began, what is being done, what came of it, why. Each names its line. Pure.

They are the one source of everything shown while the work runs: the view on a terminal, the plain lines without one, the JSON lines
of `--events` and what a hook is told. docs/formats.md lists their keys.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

State: TypeAlias = Literal["began", "done", "failed"]
Came: TypeAlias = Literal["up", "measured", "void", "failed", "unfit"]
"""How a boot came out: up (and not to be measured), measured, void, failed for what was booted, or unfit: it says nothing of that."""

Outcome: TypeAlias = Literal["done", "failed", "needs-you", "stopped"]
"""How the work ended: `needs-you` where the owner has to act before it can go on, `stopped` where somebody interrupted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A lever has its verdict."""

    lever: str
    verdict: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The work began: `boots` are on record, it will take `expected` in all and `most` at most (0: not known), each of `boot_s`.

    `decided` are verdicts that were given before, in a climb that goes on.
    """

    verb: str
    what: str
    simulated: bool
    pace: float = 1.0
    levers: tuple[str, ...] = ()
    decided: tuple[Judged, ...] = ()
    boots: int = 0
    expected: int = 0
    most: int = 0
    boot_s: float = 0.0
    origin: str = ""
    """Where `boot_s` comes from: boots on record, or others' reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Booting:
    """A boot began: its number in the work, the levers that are on, and why it is made."""

    boot: str
    number: int
    on: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A stage of a boot began or ended, after so many seconds of its own."""

    stage: str
    title: str
    state: State
    seconds: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What is being done now, in words; `nodes` says it node by node where the nodes do different things."""

    text: str
    stage: str = ""
    nodes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something that the owner should know and that stops nothing."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A setting of a node was changed."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """A boot is over: how it came out and why, what it measured, and how long it took to boot."""

    boot: str
    number: int
    on: tuple[str, ...]
    outcome: Came
    why: str = ""
    figures: tuple[tuple[str, float], ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The quality battery was asked of what serves."""

    verdict: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """Somebody asked to stop: what happens now, and what a second time does."""

    promise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The work is over: how, why, what the owner can do about it, and the levers that are kept."""

    outcome: Outcome
    why: str
    hint: str = ""
    stack: tuple[str, ...] = ()


What: TypeAlias = (
    Began | Booting | Staged | Doing | Warned | Changed | Booted | Judged | Asked | Stopping | Ended
)

NAMES: dict[type[What], str] = {
    Began: "began",
    Booting: "booting",
    Staged: "stage",
    Doing: "doing",
    Warned: "warning",
    Changed: "changed",
    Booted: "booted",
    Judged: "verdict",
    Asked: "quality",
    Stopping: "stopping",
    Ended: "ended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened on a line: wall time in UTC, and seconds of the line since an arbitrary start that never go back."""

    at: str
    s: float
    line: str
    what: What
    run: str = field(default="")
    """The climb it belongs to, as the ledger names it; '' outside any."""


def document(event: Event) -> dict[str, Any]:
    """Return an event as the JSON object of one line of `--events`."""
    told = asdict(event.what)
    for key in ("nodes", "figures"):
        if key in told:
            told[key] = dict(told[key])
    head = {"schema": 1, "event": NAMES[type(event.what)], "at": event.at, "s": round(event.s, 1)}
    return {**head, "line": event.line, "run": event.run, **told}
