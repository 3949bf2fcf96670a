"""Following: a long-running command on several nodes at once, its lines handed on as they come. I/O for the shell.

A thread a node reads that node's channel; silence and a lost connection are values that anybody may ask for.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

Take = Callable[[str, str], None]
"""Gets a node's name and one line of what its command says, blank ones left out; called from that node's thread."""

_LONGEST_LINE = 1 << 20
"""Bytes without a line end after which what came is handed on as a line; no engine's log has such lines. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """How a followed command stands on one node.

    `silent_s` are seconds of ours since its last line, or since it was first started. `rc` is how it ended, None while
    it runs; `lost` says why nothing more can come although nobody knows how it ended, and is empty otherwise.
    """

    node: str
    silent_s: float
    rc: int | None = None
    lost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where one node's lines come from: what starts the command and gives its channel, and what breaks that off."""

    node: str
    start: Callable[[], Any]
    drop: Callable[[], None]


class Following:
    """Commands that are followed, one a node; use as a context manager or `close` it. May be asked from any thread."""

    def __init__(self, sources: Iterable[Source], take: Take) -> None:
        self._readers = tuple(_Reader(source, take) for source in sources)
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def streams(self) -> tuple[Stream, ...]:
        """Return how each command stands, in the order of the nodes."""
        return tuple(reader.stream() for reader in self._readers)

    def resume(self, *, ended: bool = False) -> None:
        """Start those commands again whose connection was lost; with `ended` those too that came to an end."""
        for reader in self._readers:
            stream = reader.stream()
            if stream.lost or (ended and stream.rc is not None):
                reader.start()

    def close(self) -> None:
        """End every command and wait until the line that is being handed on has been taken; may be called twice."""
        for reader in self._readers:
            reader.hang_up()
        for reader in self._readers:
            reader.join()


class _Reader:
    """Follows one command on one node."""

    def __init__(self, source: Source, take: Take) -> None:
        self._source = source
        self._take = take
        self._thread: threading.Thread | None = None
        self._channel: Any = None
        self._closing = False
        self._heard_s = time.monotonic()
        self._rc: int | None = None
        self._lost = ""

    def start(self) -> None:
        """Start the command; where it ran before, its thread is at its end."""
        self.join()
        if self._closing:
            return
        self._lost, self._rc, self._channel = "", None, None
        name = f"follow {self._source.node}"
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self._thread.start()

    def stream(self) -> Stream:
        """Return how the command stands."""
        silent_s = time.monotonic() - self._heard_s
        return Stream(node=self._source.node, silent_s=silent_s, rc=self._rc, lost=self._lost)

    def hang_up(self) -> None:
        """Make the thread end: close the channel, or the connection while there is no channel yet."""
        self._closing = True
        if self._channel is not None:
            self._channel.close()
        elif self._thread is not None and self._thread.is_alive():
            self._source.drop()

    def join(self) -> None:
        """Wait for the thread; one that is still getting in ends with the time limit of that step."""
        if self._thread is not None:
            self._thread.join()

    def _follow(self) -> None:
        import paramiko  # noqa: PLC0415  # 0.2 s that a plan must not pay

        try:
            self._channel = self._source.start()
            if self._closing:
                self._channel.close()
            self._read(self._channel)
            code = self._channel.recv_exit_status()
            if code >= 0:
                self._rc = code
            else:
                self._lost = "the connection was closed while the command ran"
        except (OSError, EOFError, paramiko.SSHException) as fault:
            self._source.drop()
            self._lost = f"{type(fault).__name__}: {fault}"
        finally:
            # Whatever ended this thread, nobody may take it for one that still listens.
            if self._rc is None and not self._lost:
                self._lost = "what its lines are handed to broke off"

    def _read(self, channel: Any) -> None:
        rest = b""
        while chunk := channel.recv(65536):
            *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
            if len(rest) > _LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            self._hand_on(lines)
        self._hand_on([rest])

    def _hand_on(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            if line.strip():
                self._heard_s = time.monotonic()
                self._take(self._source.node, line.decode(errors="replace"))
