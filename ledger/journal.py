"""The ledger's file: append a row so that no crash can lose it, read all rows, verify the whole chain.

An append takes the lock, reads no more than the last line, writes one line, flushes and syncs it. What a crash left at
the end is set aside beside the ledger before the next row is written; it never costs a row that was whole.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ledger import bodies, lock
from ledger.codec import decode, decode_line, encode
from ledger.entry import Body, Break, Kind, Row, RowFault, chain, check
from ledger.tail import Tail, judge, last_line, pieces
from sparkctl.errors import LedgerFault

_HINTS = {
    errno.ENOSPC: "free some space there; no row was lost, the work can be resumed",
    errno.EDQUOT: "free some of your quota there; no row was lost, the work can be resumed",
    errno.EFBIG: "raise the limit on file sizes (`ulimit -f`); no row was lost, the work can be resumed",
    errno.EROFS: "name a state folder that can be written, with --state",
    errno.EACCES: "make the state folder yours, or name another with --state",
    errno.EPERM: "make the state folder yours, or name another with --state",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All rows of a whole chain, and what was noticed while reading."""

    rows: tuple[Row, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What verifying found: how many rows, the hash of the last, every break of the chain, and a torn end."""

    rows: int
    head: str
    breaks: tuple[Break, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Journal:
    """A ledger in a file; another process may append to the same file at any time."""

    path: Path
    wait_s: float = 10.0

    def append(self, kind: Kind, line: str, body: Body, at: str) -> Row:
        """Add a row, on disk when this returns.

        Raises:
            LedgerFault: the row is not one, the last row was changed, another process holds the lock, or the disk
                refuses (full, read-only). Nothing was added then.

        """
        try:
            bodies.check(kind, body)
            with _disk(self.path, "written"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with lock.writing(self.path, wait_s=self.wait_s), _opened(self.path) as file:
                    previous, start = _mended(file, self.path, at)
                    row = chain(previous, kind=kind, line=line, body=body, at=at)
                    _write(file, start, encode(row) + b"\n")
        except RowFault as fault:
            raise LedgerFault(
                f"{self.path}: a row of kind {kind} was refused: {fault}",
                hint="this is a fault of the program that wrote it, please report it",
            ) from fault
        return row

    def read(self) -> Ledger:
        """Read every row; no file is an empty ledger.

        Raises:
            LedgerFault: a line is not a row, or the chain is broken; the message names the file and the line.

        """
        rows: list[Row] = []
        warnings: list[str] = []
        for number, (row, warning) in enumerate(_rows(self.path, self._bytes()), start=1):
            warnings += [warning] if warning else []
            if row is None:
                continue
            for broken in check(row, line=number, prev=rows[-1].hash if rows else ""):
                raise LedgerFault(
                    f"{self.path}: line {number}: {broken.what}: wanted {broken.wanted or 'none'}, "
                    f"found {broken.found or 'none'}",
                    hint="the ledger was changed after it was written; `sparkctl ledger verify` lists every break",
                )
            rows.append(row)
        return Ledger(rows=tuple(rows), warnings=tuple(warnings))

    def verify(self) -> Audit:
        """Check every line and the whole chain; what does not hold is a value, not a fault.

        Raises:
            LedgerFault: the file cannot be read at all, or another process holds it.

        """
        count, prev, known = 0, "", True
        breaks: list[Break] = []
        warnings: list[str] = []
        for number, (piece, ended, last) in enumerate(pieces(self._bytes()), start=1):
            tail = judge(piece, ended=ended) if last else Tail(kept=piece, torn=b"", ended=True)
            warnings += [] if tail.is_sound else [_warning(self.path, number, tail)]
            if not tail.kept and tail.torn:
                continue
            try:
                row = decode(tail.kept)
            except RowFault as fault:
                breaks.append(Break(line=number, what="row", wanted="a row as written", found=str(fault)))
                known = False
                continue
            breaks += check(row, line=number, prev=prev if known else row.prev)
            count, prev, known = count + 1, row.hash, True
        return Audit(rows=count, head=prev, breaks=tuple(breaks), warnings=tuple(warnings))

    def _bytes(self) -> bytes:
        with _disk(self.path, "read"), lock.reading(self.path, wait_s=self.wait_s):
            try:
                return self.path.read_bytes()
            except FileNotFoundError:
                return b""


def _rows(path: Path, raw: bytes) -> Iterator[tuple[Row | None, str]]:
    for number, (piece, ended, last) in enumerate(pieces(raw), start=1):
        if not last:
            yield decode_line(piece, path=path, where=f"line {number}"), ""
            continue
        tail = judge(piece, ended=ended)
        warning = "" if tail.is_sound else _warning(path, number, tail)
        torn_off = not tail.kept and tail.torn
        yield None if torn_off else decode_line(tail.kept, path=path, where=f"line {number}"), warning


def _warning(path: Path, line: int, tail: Tail) -> str:
    if not tail.torn:
        return f"{path}: line {line} lacks its end, as after a crash; the row is whole and kept"
    what = "left out" if not tail.kept else "the row before them is whole and kept"
    return (
        f"{path}: line {line} is torn, as after a crash: {len(tail.torn)} bytes are no row, {what}; "
        "the next row written sets them aside in a file of their own"
    )


@contextmanager
def _disk(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        hint = _HINTS.get(fault.errno or 0, "check the state folder and the disk under it")
        raise LedgerFault(f"{path}: cannot be {verb}: {fault.strerror}", hint=hint) from fault


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        if new:
            _sync_folder(path.parent)
        yield file


def _mended(file: BinaryIO, path: Path, at: str) -> tuple[Row | None, int]:
    """Return the last row and where the next one starts, after setting a torn end aside."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return None, 0
    start, piece, ended = last_line(file, size)
    tail = judge(piece, ended=ended)
    if tail.torn:
        _set_aside(path, tail.torn, at)
        file.truncate(start + len(tail.kept))
        os.fsync(file.fileno())
    if tail.torn and not tail.kept:
        return (_last_row(path, last_line(file, start)[1]) if start else None), start
    row = _last_row(path, tail.kept)
    if not tail.ended:
        _write(file, start + len(tail.kept), b"\n")
    return row, file.seek(0, os.SEEK_END)


def _last_row(path: Path, piece: bytes) -> Row:
    row = decode_line(piece, path=path, where="last line")
    for broken in check(row, line=row.n, prev=row.prev):
        raise LedgerFault(
            f"{path}: last line: {broken.what}: wanted {broken.wanted}, found {broken.found}",
            hint="the ledger was changed after it was written; `sparkctl ledger verify` lists every break",
        )
    return row


def _set_aside(path: Path, torn: bytes, at: str) -> None:
    stem = f"{path.name}.torn-{''.join(filter(str.isalnum, at))}"
    taken = len(list(path.parent.glob(f"{stem}*")))
    with path.with_name(f"{stem}-{taken + 1}" if taken else stem).open("xb") as aside:
        aside.write(torn)
        aside.flush()
        os.fsync(aside.fileno())
    _sync_folder(path.parent)


def _write(file: BinaryIO, start: int, data: bytes) -> None:
    try:
        file.seek(start)
        while data:
            data = data[file.write(data) :]
        file.flush()
        os.fsync(file.fileno())
    except OSError:
        with suppress(
            OSError
        ):  # what cannot be taken back now is a torn end, which the next append sets aside
            file.truncate(start)
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
