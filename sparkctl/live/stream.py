"""Stream: events as JSON lines in a file or an open file descriptor, each written out at once. I/O.

A reader that went away or a full disk ends the stream with one warning; the work goes on.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from sparkctl.live.event import Event, document

_DESCRIPTOR = "fd:"


@dataclass(slots=True, kw_only=True)
class Stream:
    """Where events go, and whom to tell when they no longer can."""

    name: str
    warn: Callable[[str], None]
    _file: IO[str] | None = field(default=None, init=False)

    def open(self) -> None:
        """Open the file, to be added to, or take the descriptor.

        Raises:
            OSError: it cannot be written, or there is no such descriptor.
            ValueError: `fd:` is not followed by a number.

        """
        where: int | str = self.name
        if self.name.startswith(_DESCRIPTOR):
            where = int(self.name.removeprefix(_DESCRIPTOR))
        mode = "w" if isinstance(where, int) else "a"
        self._file = open(where, mode, encoding="utf-8", closefd=isinstance(where, str))  # noqa: SIM115

    def tell(self, event: Event) -> None:
        """Write an event, on its way to the reader when this returns."""
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(document(event), ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as fault:
            self._file = None
            self.warn(f"--events {self.name}: no more events are written: {fault.strerror}")

    def close(self) -> None:
        """Close the file; a descriptor is left to whoever opened it."""
        if self._file:
            self._file.close()
