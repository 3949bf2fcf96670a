"""Index: the slim rows of a long ledger in a file beside it, so that a table need not read every finding and request again.

It is no record: it holds only while the ledger's file is exactly as it was when the index was written (inode, size and both times),
an append extends it, anything else makes it void, and whoever deletes it loses nothing but time. `ledger verify` never looks at it.
"""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from ledger.entry import Row, is_kind
from ledger.slim import BULK, slim_body
from ledger.walk import Seal

FROM_BYTES = 8 << 20
"""Ledgers below this are read at once, well within a second, and have no index. Ours."""


class _Head(msgspec.Struct, frozen=True):
    """First line: what the rows below leave out; written by another version, the index is void."""

    schema: int
    bulk: list[str]


class _Line(msgspec.Struct, frozen=True):
    """One row, and how the ledger stood when it was the last; most lines of a rewritten index have no seal."""

    n: int
    at: str
    kind: str
    line: str
    body: dict[str, Any]
    prev: str
    hash: str
    seal: tuple[int, int, int, int] | None = None


_HEAD = _Head(schema=1, bulk=sorted(BULK))
_head = msgspec.json.Decoder(_Head)
_lines = msgspec.json.Decoder(_Line)


def path_of(ledger: Path) -> Path:
    """Return where the index of a ledger lies."""
    return ledger.with_name(f"{ledger.name}.index")


def load(ledger: Path, seal: Seal) -> tuple[Row, ...] | None:
    """Return every slim row of the ledger that has this seal; None where no index holds for it."""
    try:
        head, _, rest = path_of(ledger).read_bytes().partition(b"\n")
        with _no_collection():
            told = _lines.decode_lines(rest) if _head.decode(head) == _HEAD else []
            holds = bool(told) and told[-1].seal == _as_tuple(seal)
            return tuple(map(_row, told)) if holds else None
    except (OSError, msgspec.MsgspecError):
        return None


def write(ledger: Path, seal: Seal, rows: Sequence[Row]) -> None:
    """Keep the slim rows of a ledger; where that cannot be done, the next read is as slow as this one was."""
    path = path_of(ledger)
    made = path.with_name(f"{path.name}.{os.getpid()}")
    encoder = msgspec.json.Encoder()
    with suppress(OSError):
        try:
            with made.open("wb") as file:
                file.write(encoder.encode(_HEAD) + b"\n")
                file.writelines(encoder.encode(_line(row)) + b"\n" for row in rows[:-1])
                file.writelines(encoder.encode(_line(row, seal)) + b"\n" for row in rows[-1:])
            made.replace(path)
        finally:
            made.unlink(missing_ok=True)


def extend(ledger: Path, before: Seal, after: Seal, row: Row) -> None:
    """Add the row that was just appended, if the index held before; one that did not stays void."""
    with suppress(OSError, msgspec.MsgspecError), path_of(ledger).open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MOST_LINE))
        last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        if _lines.decode(last).seal == _as_tuple(before):
            file.seek(size)
            file.write(msgspec.json.encode(_line(row, after)) + b"\n")


_MOST_LINE = 1 << 20
"""A slim row is far below this; of a longer one the last line is not found, and the index is void."""


def _row(one: _Line) -> Row:
    if not is_kind(one.kind):
        raise AssertionError(one.kind)
    return Row(n=one.n, at=one.at, kind=one.kind, line=one.line, body=one.body, prev=one.prev, hash=one.hash)


def _line(row: Row, seal: Seal | None = None) -> _Line:
    return _Line(
        n=row.n,
        at=row.at,
        kind=row.kind,
        line=row.line,
        body=slim_body(row.body),
        prev=row.prev,
        hash=row.hash,
        seal=_as_tuple(seal) if seal else None,
    )


def _as_tuple(seal: Seal) -> tuple[int, int, int, int]:
    return seal.inode, seal.n_bytes, seal.modified_ns, seal.changed_ns


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the collector away from a hundred thousand rows, now and later: it would look at them again and again, and find nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
