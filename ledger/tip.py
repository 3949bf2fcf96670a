"""Tip: the end of the ledger's file as an append needs it: opened, a torn end set aside, the next row on disk or not there at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ledger.codec import decode_line
from ledger.entry import Row, check
from ledger.slim import slim
from ledger.tail import judge, last_line
from sparkctl.errors import LedgerFault


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open the file for an append; a new one is in its folder for good before the first row."""
    new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        if new:
            _sync_folder(path.parent)
        yield file


def mended(file: BinaryIO, path: Path, at: str) -> tuple[Row | None, int]:
    """Return the last row and where the next one starts, after setting a torn end aside.

    Raises:
        LedgerFault: the last row is not as it was written.

    """
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
        write(file, start + len(tail.kept), b"\n")
    return row, file.seek(0, os.SEEK_END)


def _last_row(path: Path, piece: bytes) -> Row:
    row, made = decode_line(piece, path=path, where="last line", reader=slim)
    for broken in check(row, line=row.n, prev=row.prev, made=made):
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


def write(file: BinaryIO, start: int, data: bytes) -> None:
    """Write bytes from `start` on and have them on disk, or take back what was written of them.

    Raises:
        OSError: the disk refuses.

    """
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
