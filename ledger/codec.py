"""A row and its one line of the file: JSON in a fixed order of keys, the body's keys sorted, no spaces.

A line is taken only as the journal writes it, byte for byte, so that no change of the file goes unseen because JSON
happens to read the same. A row of an older version would be upgraded here; there has been one version so far.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Never, TypeVar, cast

from ledger import bodies
from ledger.entry import Json, Row, RowFault, canonical, digest, is_kind, is_moment
from ledger.fields import get, mapping, text, whole
from sparkctl.errors import LedgerFault

T = TypeVar("T")

KEYS = ("n", "at", "kind", "line", "body", "prev", "hash")


def encode(row: Row) -> bytes:
    """Write a row as one line in UTF-8, without the line's end."""
    values: tuple[Json, ...] = (row.n, row.at, row.kind, row.line, row.body, row.prev, row.hash)
    pairs = zip(KEYS, values, strict=True)
    return ("{" + ",".join(f'"{key}":{canonical(value)}' for key, value in pairs) + "}").encode()


def decode(raw: bytes) -> Row:
    """Read one line.

    Raises:
        RowFault: not JSON, an unknown kind or key, a body that lacks what its kind must say, or not as we write it.

    """
    body = mapping(_json(raw))
    unknown = sorted(set(body) - set(KEYS))
    if unknown:
        raise RowFault(f"unknown key {', '.join(unknown)}")
    kind = get(body, "kind", text)
    if not is_kind(kind):
        raise RowFault(f"kind: {kind!r} is unknown to this version")
    row = Row(
        n=get(body, "n", whole),
        at=get(body, "at", text),
        kind=kind,
        line=get(body, "line", text),
        body=get(body, "body", mapping),
        prev=get(body, "prev", text),
        hash=get(body, "hash", text),
    )
    if not is_moment(row.at):
        raise RowFault(f"at: wanted a time like 2026-09-11T11:38:00Z, found {row.at!r}")
    bodies.check(kind, row.body)
    if encode(row) != raw:
        raise RowFault(
            "the line is not written as the ledger writes it: spaces, order of keys or numbers differ"
        )
    return row


def strict(raw: bytes) -> tuple[Row, str]:
    """Read one line, and give the hash of what stands there beside it.

    Raises:
        RowFault: as `decode`.

    """
    row = decode(raw)
    return row, digest(row)


def decode_line(raw: bytes, *, path: Path, where: str, reader: Callable[[bytes], T]) -> T:
    """Read one line of a file with one of the readers; `where` names it, as `line 7`.

    Raises:
        LedgerFault: the line is not a row; the message names file and line.

    """
    try:
        return reader(raw)
    except RowFault as fault:
        raise LedgerFault(
            f"{path}: {where}: {fault}",
            hint="the ledger was changed by hand or by a newer version; restore that line from a copy, "
            "`sparkctl ledger verify` lists every such place",
        ) from fault


def _json(raw: bytes) -> Json:
    try:
        return cast("Json", json.loads(raw, parse_constant=_refuse))
    except (ValueError, RecursionError) as fault:
        raise RowFault(f"not JSON: {fault}") from fault


def _refuse(word: str) -> Never:
    raise ValueError(f"{word} is no number of JSON")
