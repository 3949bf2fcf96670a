"""docker logs of a practice node: what a rank printed, with time stamps where they are asked for.

The log is a plain file, so nothing knows when a line came. A line's stamp is the moment its container was made plus a millisecond for
each line before it: in order, the same at every look, and near enough for whoever goes on where he left off.
"""

import sys
import time
from datetime import UTC, datetime, timedelta

from rehearsal.containers import Container

_POLL_S = 0.05


class Log:
    """One container's log, from its first line or from a moment on."""

    def __init__(self, container: Container, *, since: str, is_stamped: bool) -> None:
        self._container = container
        self._since = since.removesuffix("Z")
        self._is_stamped = is_stamped
        self._made = datetime.fromisoformat(container.created[:19]).replace(tzinfo=UTC)
        self._count = 0
        self._rest = b""

    def show(self, last: int | None, *, follow: bool) -> int:
        """Print what is there, of it only the last lines where asked, then what comes until the container ends."""
        text = self._container.log.read_bytes() if self._container.log.exists() else b""
        lines = self._lines(text, ends=not follow)
        self._print(lines if last is None else lines[len(lines) - min(last, len(lines)) :])
        if follow:
            self._follow(len(text))
        return 0

    def _follow(self, upto: int) -> None:
        with self._container.log.open("rb") as log:
            log.seek(upto)
            while True:
                going = self._container.is_running()  # asked before the read, so that last words are read
                self._print(self._lines(log.read(), ends=not going))
                if not going:
                    return
                time.sleep(_POLL_S)

    def _lines(self, text: bytes, *, ends: bool) -> list[bytes]:
        """Return the whole lines of a piece, behind what was left of the piece before; at the end also the last without one."""
        *whole, self._rest = (self._rest + text).split(b"\n")
        lines = [line + b"\n" for line in whole]
        if ends and self._rest:
            lines, self._rest = [*lines, self._rest], b""
        shown = []
        for line in lines:
            stamp = self._stamp()
            if stamp >= self._since:
                shown.append(f"{stamp}Z ".encode() + line if self._is_stamped else line)
        return shown

    def _stamp(self) -> str:
        """Return the next line's stamp, nine digits behind the point as docker writes them."""
        at = self._made + timedelta(milliseconds=self._count)
        self._count += 1
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06}000"

    def _print(self, lines: list[bytes]) -> None:
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()
