"""The ledger's file: append a row so that no crash can lose it, read all rows, verify the whole chain.

An append takes the lock, reads no more than the last line, writes one line, flushes and syncs it. What a crash left at
the end is set aside beside the ledger before the next row is written; it never costs a row that was whole.
"""

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ledger import bodies, index, lock
from ledger.codec import decode, decode_line, encode, strict
from ledger.entry import Body, Break, Kind, Row, RowFault, chain, check
from ledger.slim import slim
from ledger.tail import Tail, judge
from ledger.tip import mended, opened, write
from ledger.walk import Piece, Walk, sealed, walk
from sparkctl.errors import LedgerFault

Reader: TypeAlias = Callable[[bytes], tuple[Row, str]]
"""Reads a line into a row, and gives the hash of what stands there."""

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
                with lock.writing(self.path, wait_s=self.wait_s), opened(self.path) as file:
                    before = sealed(os.fstat(file.fileno()))
                    previous, start = mended(file, self.path, at)
                    row = chain(previous, kind=kind, line=line, body=body, at=at)
                    write(file, start, encode(row) + b"\n")
                    if before.n_bytes >= index.FROM_BYTES:
                        index.extend(self.path, before, sealed(os.fstat(file.fileno())), row)
        except RowFault as fault:
            raise LedgerFault(
                f"{self.path}: a row of kind {kind} was refused: {fault}",
                hint="this is a fault of the program that wrote it, please report it",
            ) from fault
        return row

    def read(self) -> Ledger:
        """Read every row whole; no file is an empty ledger.

        Raises:
            LedgerFault: a line is not a row, or the chain is broken; the message names the file and the line.

        """
        with _disk(self.path, "read"), walk(self.path, wait_s=self.wait_s) as found:
            return self._chained(found, strict) if found else Ledger(rows=(), warnings=())

    def glance(self) -> Ledger:
        """Read every row short of its bulk (`ledger.slim`), as tables and folds need them; a long ledger from its index.

        Raises:
            LedgerFault: as `read`.

        """
        with _disk(self.path, "read"), walk(self.path, wait_s=self.wait_s) as found:
            if found is None:
                return Ledger(rows=(), warnings=())
            is_long = found.seal.n_bytes >= index.FROM_BYTES
            rows = index.load(self.path, found.seal) if is_long else None
            if rows is not None:
                return Ledger(rows=rows, warnings=())
            ledger = self._chained(found, slim)
        if is_long and not ledger.warnings:
            index.write(self.path, found.seal, ledger.rows)
        return ledger

    def whole(self, numbers: Collection[int]) -> tuple[Row, ...]:
        """Read the rows of these numbers whole, the others not at all; a number that the ledger lacks is left out.

        Raises:
            LedgerFault: one of these rows is none.

        """
        with _disk(self.path, "read"), walk(self.path, wait_s=self.wait_s) as found:
            pieces = enumerate(found.pieces() if found else (), start=1)
            kept = [(number, _judged(piece).kept) for number, piece in pieces if number in numbers]
        return tuple(
            decode_line(raw, path=self.path, where=f"line {number}", reader=decode)
            for number, raw in kept
            if raw
        )

    def verify(self) -> Audit:
        """Check every line and the whole chain; what does not hold is a value, not a fault.

        Raises:
            LedgerFault: the file cannot be read at all, or another process holds it.

        """
        with _disk(self.path, "read"), walk(self.path, wait_s=self.wait_s) as found:
            return self._audited(found.pieces() if found else ())

    def _audited(self, found: Iterable[Piece]) -> Audit:
        count, prev, known = 0, "", True
        breaks: list[Break] = []
        warnings: list[str] = []
        for number, piece in enumerate(found, start=1):
            tail = _judged(piece)
            warnings += [] if tail.is_sound else [_warning(self.path, number, tail)]
            if not tail.kept and tail.torn:
                continue
            try:
                row, made = slim(tail.kept)
            except RowFault as fault:
                breaks.append(Break(line=number, what="row", wanted="a row as written", found=str(fault)))
                known = False
                continue
            breaks += check(row, line=number, prev=prev if known else row.prev, made=made)
            count, prev, known = count + 1, row.hash, True
        return Audit(rows=count, head=prev, breaks=tuple(breaks), warnings=tuple(warnings))

    def _chained(self, found: Walk, reader: Reader) -> Ledger:
        rows: list[Row] = []
        warnings: list[str] = []
        prev = ""
        for number, (told, warning) in enumerate(_rows(self.path, found, reader), start=1):
            warnings += [warning] if warning else []
            if told is None:
                continue
            row, made = told
            for broken in check(row, line=number, prev=prev, made=made):
                raise LedgerFault(
                    f"{self.path}: line {number}: {broken.what}: wanted {broken.wanted or 'none'}, "
                    f"found {broken.found or 'none'}",
                    hint="the ledger was changed after it was written; `sparkctl ledger verify` lists every break",
                )
            rows.append(row)
            prev = row.hash
        return Ledger(rows=tuple(rows), warnings=tuple(warnings))


def _rows(path: Path, found: Walk, reader: Reader) -> Iterator[tuple[tuple[Row, str] | None, str]]:
    """Yield each row with the hash of what stands there, None for a last line that is torn off, and a warning of that."""
    for number, piece in enumerate(found.pieces(), start=1):
        tail = _judged(piece)
        warning = "" if tail.is_sound else _warning(path, number, tail)
        torn_off = not tail.kept and tail.torn
        yield (
            None if torn_off else decode_line(tail.kept, path=path, where=f"line {number}", reader=reader),
            warning,
        )


def _judged(piece: Piece) -> Tail:
    return judge(piece.raw, ended=piece.ended) if piece.last else Tail(kept=piece.raw, torn=b"", ended=True)


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
