"""Crew: one process for each line of a climb over several, so that all boot at once; what each tells and measures comes here.

A process, not a thread: an interrupt has to break off the boot of every line and see its ranks stopped, as it does for one line,
and only the main thread of a process hears one. The workers sit in process groups of their own, so that a terminal's Ctrl-C reaches
this process alone, which hands it on once; when this process is killed they end with it, as a climb on one line would.
"""

import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Protocol, Self

from sparkctl.cli.watch import Taker, Teller
from sparkctl.clock import Clock
from sparkctl.console import Console
from sparkctl.errors import FileFault, Interrupted, Refused, SparkctlError, Unclear
from sparkctl.live.event import Event, Warned
from tuner.climb import Climb
from tuner.steps import Away, Boot, Trial

_FAULTS: Mapping[int, type[SparkctlError]] = {1: Refused, 2: FileFault, 3: Unclear}
"""What a worker's fault becomes here, by its exit code."""


class Worker(Protocol):
    """What works on one line; it is sent into a process of its own, and tells to the watch and the console that it is given there."""

    console: Console
    watch: Taker

    def measure(self, step: Boot) -> Trial:
        """Boot and bench."""
        ...

    def serve(self, ended: Climb) -> None:
        """Leave what is proven serving."""
        ...


@dataclass(frozen=True, slots=True)
class _Seat:
    """A worker's process and the pipe to it."""

    process: BaseProcess
    pipe: Connection


@dataclass(slots=True, kw_only=True)
class Crew:
    """The workers of all lines, started when entered and ended when left; `watch` takes what happens there, `console` what else they tell.

    `faults` are those because of which a line cannot go on, by line.
    """

    workers: Mapping[str, Worker]
    console: Console
    watch: Taker
    faults: dict[str, SparkctlError] = field(default_factory=dict)
    _seats: dict[str, _Seat] = field(default_factory=dict, init=False)
    _busy: set[str] = field(default_factory=set, init=False)

    def __enter__(self) -> Self:
        """Start every worker."""
        context = get_context("spawn")
        for line, worker in self.workers.items():
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(worker, theirs), name=f"line {line}", daemon=True)
            process.start()
            theirs.close()
            self._seats[line] = _Seat(process, ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Break off what is under way and wait until it is cleaned up; a second interrupt waits no longer."""
        try:
            for line in self._busy:
                if pid := self._seats[line].process.pid:
                    os.kill(pid, signal.SIGINT)
            while self._busy:
                self._next()
        finally:
            for seat in self._seats.values():
                seat.pipe.close()
                seat.process.join(timeout=5)
                seat.process.kill()

    def start(self, line: str, step: Boot) -> None:
        """Begin a boot on a line."""
        self._ask(line, "measure", step)

    def wait(self) -> Trial | Away:
        """Return what became of the next boot that is over, with its line's name: a worker knows of one line and names none.

        Raises:
            SparkctlError: a file is wrong, or the work was interrupted; what concerns one line is an `Away`.

        """
        line, said = self._next()
        if isinstance(said, SparkctlError):
            if isinstance(said, (FileFault, Interrupted)):
                raise said
            self.faults[line] = said
            self._warn(line, f"leaves the climb: {said.message}")
            return Away(line=line, why=said.message)
        if not isinstance(said, Trial):
            raise TypeError(f"line {line} answered {said!r}, wanted a trial")
        return replace(said, line=line)

    def serve(self, ended: Mapping[str, Climb]) -> None:
        """Have what is proven serve on each of these lines, all at once."""
        for line, climb in ended.items():
            self._ask(line, "serve", climb)
        while self._busy:
            line, said = self._next()
            if isinstance(said, SparkctlError):
                self._warn(line, said.message)

    def _warn(self, line: str, text: str) -> None:
        Teller(watch=self.watch, line=line).tell(Warned(text=text))

    def _ask(self, line: str, what: str, value: object) -> None:
        self._seats[line].pipe.send((what, value))
        self._busy.add(line)

    def _next(self) -> tuple[str, object]:
        """Tell what busy workers tell until one of them is done; return its line and its answer, a fault as a value."""
        while True:
            pipes = {self._seats[line].pipe: line for line in self._busy}
            for pipe in connection.wait(list(pipes)):
                line = pipes[pipe]  # type: ignore[index]
                try:
                    what, *said = self._seats[line].pipe.recv()
                except EOFError:
                    what, said = (
                        "fault",
                        [3, "the process that works on it ended", "go on with tune --resume"],
                    )
                if what == "event":
                    self.watch.take(said[0])
                    continue
                if what == "tell":
                    name, text = said
                    getattr(self.console, name)(f"line {line}: {text}")
                    continue
                self._busy.discard(line)
                if what == "interrupted":
                    return line, Interrupted(f"the climb on line {line} was interrupted", hint=said[0])
                if what == "fault":
                    code, message, hint = said
                    return line, _FAULTS.get(code, Unclear)(message, hint=hint)
                return line, said[0]


@dataclass(frozen=True, slots=True)
class Wire:
    """Hands events on to whoever holds the other end of the pipe."""

    pipe: Connection
    clock: Clock

    def take(self, event: Event) -> None:
        """Hand one on."""
        self.pipe.send(("event", event))


class Relay(Console):
    """A console that sends what it is told to whoever holds the other end of the pipe; a worker prints nothing itself."""

    def __init__(self, pipe: Connection, like: Console) -> None:
        """Tell as much as `like` does."""
        super().__init__(json=like.json, quiet=like.quiet, verbose=like.verbose, color=like.color)
        self._pipe = pipe

    def _send(self, name: str, text: str) -> None:
        self._pipe.send(("tell", name, text))

    def say(self, text: str) -> None:
        """Tell something."""
        self._send("say", text)

    def warn(self, text: str) -> None:
        """Tell something that must be heard."""
        self._send("warn", text)

    def progress(self, text: str) -> None:
        """Say what is going on now."""
        if text:
            self._send("progress", text)


def _work(worker: Worker, pipe: Connection) -> None:
    """Work in a process of its own until the pipe is closed, an interrupt comes, or the parent is gone."""
    os.setpgrp()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.default_int_handler)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worker.console, worker.watch = Relay(pipe, worker.console), Wire(pipe, worker.watch.clock)
    try:
        while True:
            what, value = pipe.recv()
            try:
                answer = worker.measure(value) if what == "measure" else None
                if what == "serve":
                    worker.serve(value)
            except Interrupted as fault:
                pipe.send(("interrupted", fault.hint))
            except SparkctlError as fault:
                pipe.send(("fault", fault.exit_code, fault.message, fault.hint))
            else:
                pipe.send(("done", answer))
    except (EOFError, BrokenPipeError):
        return
    except KeyboardInterrupt:
        with suppress(BrokenPipeError):
            pipe.send(("interrupted", "tune --resume goes on with it"))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)
