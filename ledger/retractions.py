"""Retractions: which row one takes back, and so which rows count. Pure."""

from collections.abc import Sequence

from ledger.entry import Body, Row
from ledger.fields import get, text, whole


def retracts(body: Body) -> int:
    """Read which row a retraction takes back; it must say why."""
    get(body, "why", text)
    return get(body, "retracts", whole)


def live(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows that count: neither retracted nor a retraction; a retraction may itself be retracted."""
    gone: set[int] = set()
    for row in reversed(rows):
        if row.kind == "retract" and row.n not in gone:
            gone.add(retracts(row.body))
    return tuple(row for row in rows if row.n not in gone and row.kind != "retract")
