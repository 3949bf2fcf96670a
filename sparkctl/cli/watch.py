"""Watch: what boots and climbs tell while they run, to where the owner looks: a live view, plain lines, JSON lines, his hook.

Whoever works on a line gets a `Teller` for it and says what happens; nothing else of the program prints while it runs.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Protocol

import typer
from rich.console import RenderableType

from launcher.plan import STAGES, STOP, Progress
from sparkctl.clock import Clock
from sparkctl.console import Console
from sparkctl.errors import FileFault, Interrupted, Refused, SparkctlError, Unclear, UsageFault
from sparkctl.live import hook, words
from sparkctl.live.event import (
    Began,
    Changed,
    Doing,
    Ended,
    Event,
    Judged,
    Outcome,
    Staged,
    Warned,
    What,
)
from sparkctl.live.hook import Hook
from sparkctl.live.state import State, fold
from sparkctl.live.stream import Stream
from sparkctl.live.view import view

EventsOption = Annotated[
    str | None,
    typer.Option(
        "--events", metavar="FILE", help="Add every event as a line of JSON to this file, or to fd:NUMBER."
    ),
]
NotifyOption = Annotated[
    str | None,
    typer.Option(
        "--notify",
        metavar="COMMAND",
        envvar="SPARKCTL_NOTIFY",
        help="Call this when work is done, failed or needs you, and on every verdict; the event is on its stdin.",
    ),
]

_TITLES = dict((*STAGES, STOP))


class Taker(Protocol):
    """Who takes events: the watch of this process, or one that hands them on to another process."""

    @property
    def clock(self) -> Clock:
        """The line's clock."""
        ...

    def take(self, event: Event) -> None:
        """Take an event."""
        ...


@dataclass(frozen=True, slots=True)
class Unheard:
    """Takes events where nobody listens yet, as before a worker has its process."""

    clock: Clock

    def take(self, event: Event) -> None:
        """Let it pass."""


@dataclass(slots=True, kw_only=True)
class Watch:
    """Where events go. Several threads may tell at once; each event is handed on whole."""

    console: Console
    clock: Clock
    stages: bool
    sinks: tuple[Stream | Hook, ...] = ()
    state: State = field(default_factory=State)
    _judged: Judged | None = field(default=None, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def take(self, event: Event) -> None:
        """Fold an event into what is shown, print its line, and hand it on."""
        with self._lock:
            self.state = fold(self.state, event)
            is_known = event.what == self._judged  # of lines that climb together each is told its verdict
            for sink in self.sinks:
                if not (is_known and isinstance(sink, Hook)):
                    sink.tell(event)
            if not is_known:
                self._print(event)
            if isinstance(event.what, Judged):
                self._judged = event.what

    def view(self) -> RenderableType:
        """Return what is shown now."""
        return view(self.state, s=self.clock.monotonic_s(), at=self.clock.today())

    def hear(self, text: str) -> None:
        """Take what is going on from who knows of no line; it is shown while one line is at work."""
        if text and len(self.state.lines) == 1:
            Teller(watch=self, line=self.state.lines[0].name).tell(Doing(text=text))

    def _print(self, event: Event) -> None:
        of = self._whose(event) if len(self.state.lines) > 1 else ""
        if isinstance(event.what, Warned):
            self.console.warn(of + event.what.text)
            return
        details = self.console.verbose and not self.console.is_live
        if text := words.line(event, stages=self.stages or self.console.verbose, details=details):
            self.console.say(of + text)

    def _whose(self, event: Event) -> str:
        """Name an event's line, or all of them where it is a verdict: of lines that climb together it is everyone's."""
        if isinstance(event.what, Judged):
            return f"lines {' and '.join(line.name for line in self.state.lines)}: "
        return f"line {event.line}: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Teller:
    """Who works on one line, for the time of one run ('' outside a climb): says what happens there."""

    watch: Taker
    line: str
    run: str = ""

    def tell(self, what: What) -> None:
        """Say that something happened, now."""
        clock = self.watch.clock
        self.watch.take(
            Event(at=clock.today(), s=clock.monotonic_s(), line=self.line, what=what, run=self.run)
        )

    def doing(self, text: str) -> None:
        """Say what is being done."""
        if text:
            self.tell(Doing(text=text))

    @contextmanager
    def work(self, began: Began) -> Iterator[None]:
        """Say that the work began, and how it ended where it breaks off; who comes to the end says so himself."""
        self.tell(began)
        try:
            yield
        except KeyboardInterrupt:
            self.tell(Ended(outcome="stopped", why="interrupted"))
            raise
        except SparkctlError as fault:
            self.tell(Ended(outcome=_outcome(fault), why=fault.message, hint=fault.hint))
            raise

    def boot(self) -> "BootTeller":
        """Return who tells of one boot's ritual."""
        return BootTeller(teller=self)


@dataclass(slots=True, kw_only=True)
class BootTeller:
    """The `launcher.plan.Report` of one boot: its progress as events, a stage's end with the time it took."""

    teller: Teller
    since: dict[str, float] = field(default_factory=dict)

    def __call__(self, progress: Progress) -> None:
        """Tell of it."""
        if what := self._event(progress):
            self.teller.tell(what)

    def _event(self, progress: Progress) -> What | None:
        stage, title = progress.stage, _TITLES[progress.stage]
        match progress.state:
            case "began":
                self.since[stage] = progress.seconds
                return Staged(stage=stage, title=title, state="began")
            case "tells":
                nodes = tuple(progress.nodes.items())
                return Doing(text=progress.detail, stage=stage, nodes=nodes) if progress.detail else None
            case "warns":
                return Warned(text=progress.detail)
            case "changes":
                return Changed(text=progress.detail)
            case "done" | "failed":
                took = progress.seconds - self.since.get(stage, progress.seconds)
                return Staged(
                    stage=stage, title=title, state=progress.state, seconds=took, why=progress.detail
                )


@contextmanager
def watching(
    console: Console, clock: Clock, *, stages: bool, events: str | None, notify: str | None
) -> Iterator[Watch]:
    """Show, print and hand on what is told within the block; `stages` also prints the end of each stage of a boot.

    Raises:
        FileFault, UsageFault: the file of events cannot be written, or the hook is no command.

    """
    with ExitStack() as stack:
        sinks: list[Stream | Hook] = []
        if events is not None:
            sinks.append(_stream(console, events))
        if notify is not None:
            sinks.append(_hook(console, notify))
        for sink in sinks:
            stack.callback(sink.close)
        watch = Watch(console=console, clock=clock, stages=stages, sinks=tuple(sinks))
        stack.enter_context(console.live(watch.view, watch.hear))
        yield watch


def _stream(console: Console, name: str) -> Stream:
    made = Stream(name=name, warn=console.warn)
    try:
        made.open()
    except OSError as fault:
        raise FileFault(
            f"--events {name}: cannot be written: {fault.strerror}",
            hint="name a file in a folder that exists, or fd:3 with 3>FILE behind the command",
        ) from fault
    except ValueError as fault:
        raise UsageFault(f"--events {name}: wanted fd: and a number", hint="for example fd:3") from fault
    return made


def _hook(console: Console, text: str) -> Hook:
    try:
        return Hook(argv=hook.parse(text), warn=console.warn)
    except ValueError as fault:
        raise UsageFault(
            f"--notify {text!r}: {fault}",
            hint="wanted a command as in a shell: --notify 'notify-send sparkctl'",
        ) from fault


def _outcome(fault: SparkctlError) -> Outcome:
    """Say what a fault that broke off the work wants of the owner."""
    if isinstance(fault, Interrupted):
        return "stopped"
    return "needs-you" if isinstance(fault, Refused | Unclear) else "failed"
