"""Figures that others published, read into the body of an import row: history, never a measurement of ours.

A CSV file's comment lines say where its figures come from, of a bench's result whoever imports it; without that they are not taken.
"""

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.entry import Body, Json, Row
from ledger.reported import imported
from ledger.retractions import live
from sparkctl.errors import FileFault
from tuner.results.figures import Figures
from tuner.results.named import named

WORDS = ("line", "row", "lever", "their_verdict")

METRICS = ("c1_per_stream_tok_s", "c6_agg_tok_s", "prefill_47k_tok_s")

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """A file that the ledger does not hold yet: the body of the row to append."""

    body: Body
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A file that the ledger already holds, byte for byte: where, and since when."""

    n: int
    at: str
    source: str


def read_ladder(path: Path, rows: Sequence[Row]) -> Fresh | Known:
    """Read a public ladder, unless one of the ledger's rows already is that file.

    Raises:
        FileFault: the file is missing, has no origin comment, lacks a column, has one that is not known, or has a
            cell that does not fit; the message lists every fault with its line.

    """
    raw = _bytes(path)
    digest = hashlib.sha256(raw).hexdigest()
    if known := _known(rows, digest):
        return known
    source, found = _parsed(path, raw)
    body: Body = {
        "simulated": False,
        "reported": True,
        "source": source,
        "digest": digest,
        "rows": found,
    }
    return Fresh(body=body, rows=len(found))


def read_result(path: Path, rows: Sequence[Row], figures: Figures, source: str) -> Fresh | Known:
    """Take one bench's result of another tool as one reported row, unless one of the ledger's rows already is that file.

    Raises:
        FileFault: the file is missing, or the result has no figure that has a name of ours.

    """
    digest = hashlib.sha256(_bytes(path)).hexdigest()
    if known := _known(rows, digest):
        return known
    told: dict[str, Json] = {one.name: one.value for one in named(figures)}
    if not told:
        raise FileFault(
            f"{path}: has no figure that could be reported", hint="sparkctl audit says what is in it"
        )
    words: dict[str, Json] = {"line": "", "row": path.stem, "lever": figures.tool, "their_verdict": "none"}
    body: Body = {
        "simulated": False,
        "reported": True,
        "source": source,
        "digest": digest,
        "rows": (words | told,),
    }
    return Fresh(body=body, rows=1)


def _known(rows: Sequence[Row], digest: str) -> Known | None:
    for row in live(rows):
        if row.kind == "import" and imported(row.body).digest == digest:
            return Known(n=row.n, at=row.at, source=imported(row.body).source)
    return None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise FileFault(f"{path}: cannot be read: {fault.strerror}", hint="check the path") from fault


def _parsed(path: Path, raw: bytes) -> tuple[str, tuple[Body, ...]]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise FileFault(f"{path}: not UTF-8 text: {fault}", hint="save the file as UTF-8") from fault
    lines = [(number, line) for number, line in enumerate(io.StringIO(text), start=1) if line.strip()]
    source = " ".join(line.lstrip("# ").strip() for _, line in lines if line.startswith("#"))
    cells = [(number, next(csv.reader([line]))) for number, line in lines if not line.startswith("#")]
    faults = [] if source else ["line 1: no comment (# ...) says where the figures come from"]
    faults += _header_faults(cells)
    if not faults:
        faults = _cell_faults(cells)
    if faults:
        raise FileFault(
            "\n".join(f"{path}: {fault}" for fault in faults),
            hint=f"the columns are {', '.join((*WORDS[:3], *METRICS, WORDS[3]))}; an empty figure means not reported",
        )
    header = cells[0][1]
    return source, tuple(_body(dict(zip(header, row, strict=True))) for _, row in cells[1:])


def _header_faults(cells: Sequence[tuple[int, list[str]]]) -> list[str]:
    if not cells:
        return ["no header: the file has no rows"]
    number, header = cells[0]
    missing = [name for name in (*WORDS, *METRICS) if name not in header]
    unknown = [name for name in header if name not in {*WORDS, *METRICS}]
    twice = sorted({name for name in header if header.count(name) > 1})
    faults = [f"line {number}: the column {name} is missing" for name in missing]
    faults += [f"line {number}: unknown column {name!r}" for name in unknown]
    faults += [f"line {number}: the column {name} stands there twice" for name in twice]
    return faults if faults or len(cells) > 1 else ["no rows below the header"]


def _cell_faults(cells: Sequence[tuple[int, list[str]]]) -> list[str]:
    header = cells[0][1]
    faults: list[str] = []
    seen: dict[tuple[str, str], int] = {}
    for number, row in cells[1:]:
        if len(row) != len(header):
            faults.append(f"line {number}: wanted {len(header)} columns, found {len(row)}")
            continue
        named = dict(zip(header, row, strict=True))
        faults += [f"line {number}: {name}: wanted text, found nothing" for name in WORDS if not named[name]]
        faults += [
            f"line {number}: {name}: wanted a number above 0 or nothing, found {named[name]!r}"
            for name in METRICS
            if named[name] and not _is_figure(named[name])
        ]
        first = seen.setdefault((named["line"], named["row"]), number)
        if first != number:
            faults.append(f"line {number}: row {named['row']} stands already on line {first}")
    return faults


def _is_figure(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and float(cell) > 0


def _body(named: Mapping[str, str]) -> Body:
    words: dict[str, Json] = {name: named[name] for name in WORDS}
    return words | {name: float(named[name]) if named[name] else None for name in METRICS}
