"""Walk: the lines of a ledger's file, one after the other, while others may append to it.

How far the file reaches and what its last line is are taken under the lock; what stands before that never changes, so the rest is
read without it: a long read keeps no writer waiting, and holds one line at a time.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ledger import lock
from ledger.tail import last_line

_BUFFER = 1 << 20
"""Bytes read at once: a line of a bench is longer than what a file is read by otherwise, and would be pieced together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """How a file stood at a moment: it is another one, or was written to, when any of these differs."""

    inode: int
    n_bytes: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One line's bytes without its end; `ended` says that an end followed, `last` that no line does."""

    raw: bytes
    ended: bool
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A file of whole lines up to `start`, and its last line as it stood under the lock."""

    file: BinaryIO
    start: int
    end: Piece | None
    seal: Seal

    def pieces(self) -> Iterator[Piece]:
        """Yield every line."""
        self.file.seek(0)
        left = self.start
        while left > 0:
            line = self.file.readline()
            left -= len(line)
            yield Piece(raw=line[:-1], ended=True, last=False)
        if self.end:
            yield self.end


@contextmanager
def walk(path: Path, *, wait_s: float) -> Iterator[Walk | None]:
    """Open the file for a walk; None where there is no file.

    Raises:
        LedgerFault: a writer held it all the while.

    """
    with lock.reading(path, wait_s=wait_s):
        try:
            file = path.open("rb", buffering=_BUFFER)
        except FileNotFoundError:
            yield None
            return
        state = os.fstat(file.fileno())
        start, raw, ended = last_line(file, state.st_size)
    with file:
        end = Piece(raw=raw, ended=ended, last=True) if state.st_size else None
        yield Walk(file=file, start=start, end=end, seal=sealed(state))


def sealed(state: os.stat_result) -> Seal:
    """Return the seal of a file as the system tells of it."""
    return Seal(
        inode=state.st_ino,
        n_bytes=state.st_size,
        modified_ns=state.st_mtime_ns,
        changed_ns=state.st_ctime_ns,
    )
