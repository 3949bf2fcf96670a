"""Watch: every rank's end and log lines as they come, from launch until ready. I/O over the shell's kept connections.

A log that is followed again after a lost connection goes on behind the last line that came: what was read once is no news, or a
rank that hangs would seem to speak each time. Docker's own time stamps tell where that is, by the node's clock.
"""

import re
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from launcher import progress
from launcher.command import RankCommand
from launcher.ending import End
from launcher.progress import RankProgress, Stage, Stuck
from sparkctl.clock import Clock
from sparkctl.following import Following
from sparkctl.shell import Shell

_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9})Z ?", re.ASCII)
"""What `docker logs --timestamps` puts before a line; always of this length, so that stamps compare as text."""


class _Log:
    """One rank's log: where it was left."""

    def __init__(self) -> None:
        self._last = self._left = ""
        self._is_new = True

    def argv(self, name: str) -> tuple[str, ...]:
        """Return what follows the log from where it was left; docker gives the line of that moment once more."""
        self._left, self._is_new = self._last, not self._last
        since = ("--since", f"{self._left}Z") if self._left else ()
        return ("docker", "logs", "--follow", "--timestamps", *since, name)

    def take(self, line: str) -> str:
        """Return the line without its stamp; empty when it came before. A progress bar's further states have no stamp."""
        found = _STAMP.match(line)
        if found:
            self._is_new = found[1] > self._left
            self._last = max(self._last, found[1])
        text = line[found.end() :] if found else line
        return text if self._is_new and text.strip() else ""


class Watch:
    """Follows `docker wait` and `docker logs` of every rank; use as a context manager. `news` is set when a rank ends."""

    def __init__(
        self, shell: Shell, commands: tuple[RankCommand, ...], clock: Clock, news: threading.Event
    ) -> None:
        now_s = self._began_s = clock.monotonic_s()
        self._shell, self._commands, self._clock, self._news = shell, commands, clock, news
        self._lock = threading.Lock()
        self._names = {one.node: one.name for one in commands}
        self._ends: dict[str, End] = {}
        self._ranks = {
            one.node: RankProgress(node=one.node, name=one.name, since_s=now_s, spoke_s=now_s)
            for one in commands
        }
        self._logs = {one.node: _Log() for one in commands}
        self._followed = tuple[Following, ...]()
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        waits = {one.node: ("docker", "wait", one.name) for one in self._commands}
        logs = {one.node: partial(self._log_argv, one.node, one.name) for one in self._commands}
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

    def stages(self) -> dict[str, tuple[tuple[Stage, float], ...]]:
        """Return by node the stages that its rank went through, each with the line's seconds from the watch's beginning to its own."""
        return {
            one.node: tuple(
                (stage, at_s - self._began_s) for stage, at_s in (*one.passed, (one.stage, one.since_s))
            )
            for one in self.ranks()
        }

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

    def _log_argv(self, node: str, name: str) -> tuple[str, ...]:
        with self._lock:
            return self._logs[node].argv(name)

    def _take_line(self, node: str, line: str) -> None:
        with self._lock:
            text = self._logs[node].take(line)
            if text:
                self._ranks[node] = progress.take(self._ranks[node], text, self._clock.monotonic_s())
