"""Rows file: rows of one rank of one table, hot ones or all of them, bound to the checkpoint that they were copied from.

First page: magic, length and JSON of what the file is (`Meaning`), zeros. Then, for hot rows, their ids uint32 ascending, padded to a page;
then the rows, weight and scale adjacent, padded to a page. It is written under another name and its first page last, so a file that a
broken-off run leaves behind is no rows file under any name. Opening refuses what is of another kind, rank, table or checkpoint, what is too
short, and what has holes: a hole would read as zeros, without an error.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.engram.row_format import BYTES, Format
from sparkctl_vllm.refusal import Refusal, demand

MAGIC, SCHEMA, PAGE = b"sparkrow", 1, 4096
AGAIN = "pack it anew for this rank: sparkctl-vllm engram pack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the first page says."""

    schema: int = SCHEMA
    holds: Literal["hot", "all"]
    layer: int
    rank: int
    ranks: int
    begin: int
    """First row of the rank in the whole table; ids in the file count from it."""
    end: int
    rows: int
    """Rows in this file."""
    kind: Format
    checkpoint: Mapping[str, str]
    """What of the checkpoint was hashed, and its SHA-256: see checkpoint.py."""
    counts: str = ""
    """SHA-256 of the frequency ledger that chose the rows."""
    ids_sha256: str = ""
    rows_sha256: str = ""

    @property
    def ids_at(self) -> int:
        """Where the ids begin."""
        return PAGE

    @property
    def rows_at(self) -> int:
        """Where the rows begin."""
        return PAGE + (_padded(4 * self.rows) if self.holds == "hot" else 0)

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.rows_at + _padded(self.rows * BYTES[self.kind])


def write(
    path: Path, meaning: Meaning, ids: NDArray[np.uint32] | None, rows: Iterable[NDArray[np.uint8]]
) -> Meaning:
    """Write a file and return what its first page says; `rows` come in pieces, [n, bytes of a row], in the order of the ids."""
    fresh = path.with_name(path.name + ".partial")
    with fresh.open("wb") as file:
        file.write(bytes(PAGE))
        ids_digest = _section(file, () if ids is None else (ids.astype("<u4").tobytes(),))
        rows_digest = _section(file, (piece.tobytes() for piece in rows))
        demand(file.tell() == meaning.size, "rows written", file.tell(), f"{meaning.size} bytes in all")
        _down(file)
        whole = {**asdict(meaning), "ids_sha256": ids_digest, "rows_sha256": rows_digest}
        text = json.dumps(whole, sort_keys=True).encode()
        demand(len(text) <= PAGE - 12, "first page", len(text), f"at most {PAGE - 12} bytes")
        file.seek(0)
        file.write(MAGIC + len(text).to_bytes(4, "little") + text)
        _down(file)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return Meaning(**whole)


def opened(path: Path, wanted: Mapping[str, object]) -> Meaning:
    """Return what a file is; raises Refusal unless it is whole and every field named in `wanted` is as it is there."""
    demand(path.is_file(), str(path), "no such file", "a rows file", AGAIN)
    with path.open("rb") as file:
        page = file.read(PAGE)
        end = os.fstat(file.fileno()).st_size
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE) if end else 0
    demand(page[:8] == MAGIC, path.name, "no rows file, or one that was never finished", "a rows file", AGAIN)
    try:
        document: dict[str, Any] = json.loads(page[12 : 12 + int.from_bytes(page[8:12], "little")])
        meaning = Meaning(**document)
    except (ValueError, TypeError) as fault:
        raise Refusal(f"{path.name}: first page", fault, "the keys of a rows file", AGAIN) from fault
    demand(meaning.schema == SCHEMA, f"{path.name}: $.schema", meaning.schema, str(SCHEMA), AGAIN)
    known = {one.name for one in fields(Meaning)}
    for name, value in wanted.items():
        demand(name in known, "wanted", name, ", ".join(sorted(known)))
        found = getattr(meaning, name)
        demand(found == value, f"{path.name}: $.{name}", found, str(value), AGAIN)
    whole = f"{meaning.size} bytes, as its first page says"
    demand(end == meaning.size, f"{path.name}: size", end, whole, "copy it again, or " + AGAIN)
    demand(
        hole == end, f"{path.name}: a hole", f"at byte {hole}", "none", "copy it again, not as a sparse file"
    )
    return meaning


def loaded(path: Path, meaning: Meaning) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return a hot file's ids and rows [rows, bytes of a row], read into memory and held against their hashes."""
    demand(meaning.holds == "hot", f"{path.name}: $.holds", meaning.holds, "hot")
    with path.open("rb") as file:
        file.seek(meaning.ids_at)
        ids = np.fromfile(file, dtype="<u4", count=meaning.rows)
        file.seek(meaning.rows_at)
        rows = np.fromfile(file, dtype=np.uint8, count=meaning.rows * BYTES[meaning.kind])
    for name, part, wanted in (("ids", ids, meaning.ids_sha256), ("rows", rows, meaning.rows_sha256)):
        digest = sha256(part.data).hexdigest()
        demand(digest == wanted, f"{path.name}: SHA-256 of its {name}", digest, wanted, AGAIN)
    return ids, rows.reshape(meaning.rows, BYTES[meaning.kind])


def _section(file: BinaryIO, pieces: Iterable[bytes]) -> str:
    digest = sha256()
    size = 0
    for piece in pieces:
        digest.update(piece)
        file.write(piece)
        size += len(piece)
    file.write(bytes(_padded(size) - size))
    return digest.hexdigest()


def _down(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _padded(size: int) -> int:
    return -(-size // PAGE) * PAGE
