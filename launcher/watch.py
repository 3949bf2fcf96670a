"""Watch: every rank's end and log lines as they come, from launch until ready. I/O over the shell's kept connections."""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from launcher import progress
from launcher.command import RankCommand
from launcher.ending import End
from launcher.progress import RankProgress, Stage, Stuck
from sparkctl.clock import Clock
from sparkctl.following import Following
from sparkctl.shell import Shell

_TAIL = "2000"
"""Lines of a log that are read again after a lost connection: the last of them tell the stage. Ours."""


class Watch:
    """Follows `docker wait` and `docker logs` of every rank; use as a context manager. `news` is set when a rank ends."""

    def __init__(
        self, shell: Shell, commands: tuple[RankCommand, ...], clock: Clock, news: threading.Event
    ) -> None:
        now_s = clock.monotonic_s()
        self._shell, self._commands, self._clock, self._news = shell, commands, clock, news
        self._lock = threading.Lock()
        self._names = {one.node: one.name for one in commands}
        self._ends: dict[str, End] = {}
        self._ranks = {
            one.node: RankProgress(node=one.node, name=one.name, since_s=now_s, spoke_s=now_s)
            for one in commands
        }
        self._followed = tuple[Following, ...]()
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        waits = {one.node: ("docker", "wait", one.name) for one in self._commands}
        logs = {one.node: ("docker", "logs", "--follow", "--tail", _TAIL, one.name) for one in self._commands}
        with ExitStack() as stack:
            self._followed = (
                stack.enter_context(self._shell.follow(waits, self._take_end)),
                stack.enter_context(self._shell.follow(logs, self._take_line)),
            )
            self._resources = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def ends(self) -> tuple[End, ...]:
        """Return the ranks that ended, in the order in which that was learnt."""
        with self._lock:
            return tuple(self._ends.values())

    def ranks(self) -> tuple[RankProgress, ...]:
        """Return what every rank does, in rank order."""
        with self._lock:
            return tuple(self._ranks.values())

    def stuck(self, moved: Mapping[str, float], silence_s: Mapping[Stage, float]) -> Stuck | None:
        """Return the rank that has been silent for too long."""
        return progress.stuck(self.ranks(), self._clock.monotonic_s(), moved, silence_s)

    def resume(self) -> None:
        """Follow those ranks again whose connection was lost."""
        for following in self._followed:
            following.resume()

    def _take_end(self, node: str, line: str) -> None:
        """Take what docker wait prints: the exit code; anything else (no such container) the next look tells."""
        if not line.strip().isdecimal():
            return
        with self._lock:
            self._ends.setdefault(node, End(node=node, name=self._names[node], code=int(line)))
        self._news.set()

    def _take_line(self, node: str, line: str) -> None:
        with self._lock:
            self._ranks[node] = progress.take(self._ranks[node], line, self._clock.monotonic_s())
