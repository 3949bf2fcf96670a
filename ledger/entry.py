"""A row of the ledger and the chain that holds the rows together: values in, values out.

Each row carries the hash of the row before it, so a changed, lost or inserted row breaks the chain where it stands.
What the chain cannot show is a whole tail of rows cut off at a line's end; the head hash in the report shows that.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeGuard, cast, get_args

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Body: TypeAlias = Mapping[str, Json]
Kind = Literal[
    "plan",
    "step",
    "boot",
    "calibration",
    "bench",
    "quality",
    "verdict",
    "alarm",
    "import",
    "note",
    "retract",
]

KINDS: tuple[Kind, ...] = get_args(Kind)

_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class RowFault(ValueError):
    """A row is not what the ledger takes: its text says what was found and what was wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: `n` counts from 1, `at` is UTC, `prev` the hash of the row before ("" for the first)."""

    n: int
    at: str
    kind: Kind
    line: str
    body: Body
    prev: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A place where the chain does not hold: the line of the file (from 1), and what stands there instead."""

    line: int
    what: str
    wanted: str
    found: str


def canonical(value: Json) -> str:
    """Write a value as canonical JSON: sorted keys, no spaces, characters as they are.

    Raises:
        RowFault: the value holds something that JSON has no word for (NaN, infinity, half a surrogate pair, an object).

    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as fault:
        raise RowFault(f"wanted plain finite JSON values, found: {fault}") from fault
    return text


def digest(row: Row) -> str:
    """Return the sha256 hex digest of the row's canonical JSON in UTF-8, `hash` left out."""
    unsigned: Body = {
        "n": row.n,
        "at": row.at,
        "kind": row.kind,
        "line": row.line,
        "body": row.body,
        "prev": row.prev,
    }
    return hashlib.sha256(canonical(unsigned).encode()).hexdigest()


def chain(previous: Row | None, *, kind: Kind, line: str, body: Body, at: str) -> Row:
    """Make the row that follows `previous`; the body is copied, so that nobody can change it later.

    Raises:
        RowFault: unknown kind, `at` not like 2026-09-11T11:38:00Z, or a body that is not plain JSON.

    """
    if not is_kind(kind):
        raise RowFault(f"kind: wanted one of {', '.join(KINDS)}; found {kind!r}")
    if not is_moment(at):
        raise RowFault(f"at: wanted a time like 2026-09-11T11:38:00Z, found {at!r}")
    n, prev = (previous.n + 1, previous.hash) if previous else (1, "")
    copied = cast("Body", json.loads(canonical(body)))
    unsigned = Row(n=n, at=at, kind=kind, line=line, body=copied, prev=prev, hash="")
    return Row(n=n, at=at, kind=kind, line=line, body=copied, prev=prev, hash=digest(unsigned))


def verify(rows: Sequence[Row]) -> tuple[Break, ...]:
    """Return every place where the rows are not one whole chain; nothing when they are."""
    breaks: list[Break] = []
    prev = ""
    for line, row in enumerate(rows, start=1):
        breaks += check(row, line=line, prev=prev)
        prev = row.hash
    return tuple(breaks)


def check(row: Row, *, line: int, prev: str, made: str | None = None) -> tuple[Break, ...]:
    """Return what is wrong with the row on that line, given the hash of the row before it.

    `made` is the hash of what stands there, for a row that was not read whole.
    """
    claims = (
        ("number", str(line), str(row.n)),
        ("hash of the row before", prev, row.prev),
        ("hash of this row", digest(row) if made is None else made, row.hash),
    )
    return tuple(
        Break(line=line, what=what, wanted=wanted, found=found)
        for what, wanted, found in claims
        if wanted != found
    )


def is_kind(text: object) -> TypeGuard[Kind]:
    """Whether that is one of the kinds of row."""
    return text in KINDS


def is_moment(text: str) -> bool:
    """Whether that is a time in UTC with whole seconds, as the ledger writes it."""
    return _AT.fullmatch(text) is not None


def head(rows: Sequence[Row]) -> str:
    """Return the hash of the last row, which stands for the whole chain; "" for an empty ledger."""
    return rows[-1].hash if rows else ""
