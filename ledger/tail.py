"""The end of the ledger's file: a whole row, or what a crash left of one. Bytes in, values out.

A row is written with one call, so a crash leaves a prefix of its line without the line's end, and a file system that
had grown the file but not yet filled it leaves NUL bytes. Only that counts as torn. A last line that was whole and
reads differently now was changed, which is a fault and not a tear.
"""

from dataclasses import dataclass
from typing import BinaryIO

from ledger.codec import decode
from ledger.entry import RowFault

_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The last line: the bytes that are a row (none if `kept` is empty), and those to be set aside."""

    kept: bytes
    torn: bytes
    ended: bool

    @property
    def is_sound(self) -> bool:
        """Whether nothing was torn off: the line is whole and ended."""
        return self.ended and not self.torn


def judge(piece: bytes, *, ended: bool) -> Tail:
    """Tell a whole last line from a torn one; `ended` says whether a line's end followed."""
    if not _looks_torn(piece, ended=ended):
        return Tail(kept=piece, torn=b"", ended=ended)
    whole = piece[: piece.rfind(b"}") + 1]
    try:
        decode(whole)
    except RowFault:
        return Tail(kept=b"", torn=piece + b"\n" * ended, ended=False)
    return Tail(kept=whole, torn=piece[len(whole) :] + b"\n" * ended, ended=False)


def last_line(file: BinaryIO, end: int) -> tuple[int, bytes, bool]:
    """Return where the last line before `end` starts, its bytes, and whether a line's end follows; reads only that."""
    start, ended, read = end, False, b""
    while start > 0:
        size = min(start, max(_BLOCK, len(read)))
        file.seek(start - size)
        read = file.read(size) + read
        start -= size
        ended = read.endswith(b"\n")
        cut = read[: len(read) - ended].rfind(b"\n") + 1
        if cut:
            return start + cut, read[cut : len(read) - ended], ended
    return 0, read[: len(read) - ended], ended


def _looks_torn(piece: bytes, *, ended: bool) -> bool:
    if not piece.startswith((b"{", b"\0")):
        return False
    return not ended or b"\0" in piece or not piece.endswith(b"}")
