"""`sparkctl ledger export`: every figure as CSV or Parquet, or one boot's bench in the shape of v41bench."""

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from ledger.entry import Body, Row
from ledger.fields import each, get, mapping
from ledger.flat import Flat, flat
from ledger.journal import Journal
from ledger.texts import Texts
from sparkctl import edge
from sparkctl.cli.recorded import read
from sparkctl.cli.session import Session, verb
from sparkctl.errors import FileFault, Refused, UsageFault
from tuner.request import Bench
from tuner.results import v41bench

FORMS = (".csv", ".parquet", ".json")


@verb
def export(
    session: Session,
    file: Annotated[Path, typer.Argument(help="A .csv or .parquet of every figure, or a .json of one boot.")],
    boot: Annotated[
        str | None, typer.Option("--boot", help="The boot of a .json, in the shape of v41bench.")
    ] = None,
) -> int:
    """Write every figure as CSV or Parquet, or one boot's bench as v41bench JSON.

    The file's ending says which. Simulated and reported figures are labelled, void ones have their reason beside them.
    """
    if file.suffix not in FORMS:
        raise UsageFault(
            f"{file}: wanted a file that ends in {', '.join(FORMS)}", hint="for example figures.csv"
        )
    if (file.suffix == ".json") is (boot is None):
        raise UsageFault(
            f"{file} is {'of one boot, and none was named' if boot is None else 'of every boot, and --boot names one'}",
            hint="a .json holds one boot (--boot ID), a .csv or .parquet all of them",
        )
    rows = read(session, must_exist=True).rows
    if boot is not None:
        _write(file, (edge.to_json(_v41bench(session, rows, boot, file.stem)) + "\n").encode())
        count = 1
    else:
        told = flat(rows)
        count = len(told)
        _write(file, _csv(told) if file.suffix == ".csv" else _parquet(told))
    session.console.show(f"{file}: {count} {'bench' if boot else 'figures'} written")
    session.console.answer({"ok": True, "file": str(file), "written": count})
    return 0


def _csv(told: Sequence[Flat]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([one.name for one in fields(Flat)])
    writer.writerows(astuple(one) for one in told)
    return text.getvalue().encode()


def _parquet(told: Sequence[Flat]) -> bytes:
    try:
        import pandas as pd  # noqa: PLC0415  # an extra, and only this form needs it
        import pyarrow as _  # noqa: F401, ICN001, PLC0415
    except ImportError as fault:
        raise Refused(
            f"Parquet wants pandas and pyarrow, which are not installed here: {fault}",
            hint="install sparkctl with its extra [export], or write a .csv",
        ) from fault
    made = io.BytesIO()
    pd.DataFrame([edge.plain(one) for one in told], columns=[one.name for one in fields(Flat)]).to_parquet(
        made, index=False
    )
    return made.getvalue()


def _v41bench(session: Session, rows: Sequence[Row], boot: str, label: str) -> Any:
    numbers = [row.n for row in rows if row.kind == "bench" and row.body.get("boot") == boot]
    if not numbers:
        raise UsageFault(
            f"{session.ledger_path} has no bench of boot {boot}", hint="sparkctl ledger list shows all"
        )
    body = Journal(session.ledger_path).whole(numbers[-1:])[0].body
    if "requests" not in body or "workload_digest" not in body:
        raise Refused(
            f"{boot}: its bench was void before anything was asked", hint="name a boot that was measured"
        )
    told = _bench(body, Texts.beside(session.ledger_path))
    return v41bench.document(told, label=label, model=str(body["workload"]))


def _bench(body: Body, store: Texts) -> Bench:
    """Return a bench as its row keeps it, its words from beside the ledger; what servers counted is kept only as a sum, and left out."""
    requests = [dict(one) for one in get(body, "requests", lambda found: each(found, mapping))]
    for one in requests:
        name = str(one.pop("text_sha256"))
        one["text"] = store.get(name).decode("utf-8", "replace") if one.pop("text_chars") else ""
    workload = store.get(str(body["workload_digest"])).decode()
    raw = {key: body[key] for key in ("workload_digest", "run_tag", "started", "seconds", "client_cpu_share")}
    raw["workload"] = cast("Body", edge.parse_json(workload, source="the workload kept beside the ledger"))
    return edge.structure({**raw, "requests": requests}, Bench, source="the ledger's bench")


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault.strerror}", hint="name another file") from fault
