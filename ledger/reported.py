"""What an import row holds: figures that others published, typed, each row one boot of theirs with their verdict."""

from dataclasses import dataclass

from ledger.entry import Body, Json, RowFault
from ledger.fields import each, flag, get, mapping, number_or_null, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One imported row: one boot of somebody else's, with their verdict; a figure they did not report is absent."""

    line: str
    row: str
    lever: str
    figures: tuple[tuple[str, float], ...]
    their_verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A file of others' figures, known by its sha256."""

    source: str
    digest: str
    rows: tuple[Reported, ...]


def imported(body: Body) -> Import:
    """Read the body of an import."""
    if not get(body, "reported", flag):
        raise RowFault("reported: wanted true, found false")
    return Import(
        source=get(body, "source", text),
        digest=get(body, "digest", text),
        rows=get(body, "rows", lambda found: each(found, _reported)),
    )


def _reported(found: Json) -> Reported:
    body = mapping(found)
    words = {"line", "row", "lever", "their_verdict"}
    figures = [(name, get(body, name, number_or_null)) for name in body if name not in words]
    return Reported(
        line=get(body, "line", text),
        row=get(body, "row", text),
        lever=get(body, "lever", text),
        figures=tuple((name, value) for name, value in figures if value is not None),
        their_verdict=get(body, "their_verdict", text),
    )
