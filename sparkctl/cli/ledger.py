"""`sparkctl ledger`: list, show and verify what was recorded, and import what others reported; compare and drift stand beside it."""

import re
from typing import Annotated, Any

import typer

from bootcheck import redact
from ledger import table
from ledger.imports import Known, read_ladder, read_result
from ledger.journal import Journal
from ledger.texts import Texts
from sparkctl import content, edge
from sparkctl.cli import ledger_compare, ledger_drift, ledger_export
from sparkctl.cli.recorded import demand, read
from sparkctl.cli.session import Session, verb
from sparkctl.console import Column
from sparkctl.errors import UsageFault

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)

app = typer.Typer(rich_markup_mode=None)
app.command("compare")(ledger_compare.compare)
app.command("drift")(ledger_drift.drift)
app.command("export")(ledger_export.export)


@app.command("list")
@verb
def list_rows(session: Session) -> int:
    """List every row with a few words on what it says."""
    rows = table.listed(read(session, must_exist=True).rows)
    session.console.table(
        (
            *(Column(title=title) for title in ("n", "at", "kind", "line", "label")),
            Column(title="about", fold=True),
        ),
        [(str(row.n), row.at, row.kind, row.line, _label(row), row.about) for row in rows],
    )
    if session.console.json:
        session.console.answer({"rows": edge.plain(rows), "ledger": str(session.ledger_path)})
    return 0


def _label(row: table.Listed) -> str:
    return f"{row.label} retracted".strip() if row.retracted else row.label


@app.command()
@verb
def show(session: Session, n: Annotated[int, typer.Argument(help="The row's number.")]) -> int:
    """Print one row whole."""
    count = len(read(session, must_exist=True).rows)
    if not 1 <= n <= count:
        numbers = f"1 to {count}" if count else "none"
        raise UsageFault(
            f"{session.ledger_path} has no row {n}; it has {numbers}", hint="sparkctl ledger list shows all"
        )
    row: Any = edge.plain(Journal(session.ledger_path).whole((n,))[0])
    session.console.show(edge.to_json(row))
    session.console.answer(row)
    return 0


@app.command()
@verb
def text(
    session: Session,
    name: Annotated[str, typer.Argument(help="The hash of a text, as a row names it (text_sha256).")],
) -> int:
    """Print a text that a row names by its hash: what a model said, or a whole workload."""
    demand(session)
    if not _HASH.fullmatch(name):
        raise UsageFault(
            f"{name!r} is no hash of a text; wanted 64 hexadecimal digits",
            hint="sparkctl ledger show N prints a bench with the text_sha256 of every request",
        )
    content = Texts.beside(session.ledger_path).get(name).decode("utf-8", "replace")
    # What a model says may be what it was told: shown like a log.
    shown = redact.text(content)
    session.console.show(shown)
    session.console.answer({"text_sha256": name, "text": shown})
    return 0


@app.command()
@verb
def verify(session: Session) -> int:
    """Check the whole hash chain; exit 1 when it is broken."""
    demand(session)
    audit = Journal(session.ledger_path).verify()
    for warning in audit.warnings:
        session.console.warn(warning)
    for broken in audit.breaks:
        session.console.show(
            f"line {broken.line}: {broken.what}: wanted {broken.wanted or 'none'}, found {broken.found or 'none'}"
        )
    whole = not audit.breaks
    head = f", last hash {audit.head[:12]}" if audit.head else ""
    session.console.show(
        f"{session.ledger_path}: the chain of {audit.rows} rows is {'whole' if whole else 'broken'}{head}"
    )
    session.console.answer(
        {
            "ok": whole,
            "rows": audit.rows,
            "head": audit.head,
            "breaks": edge.plain(audit.breaks),
            "warnings": list(audit.warnings),
            "ledger": str(session.ledger_path),
        }
    )
    return 0 if whole else 1


@app.command("import")
@verb
def import_file(
    session: Session,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Figures of others: public_ladder or v41bench_speedrun, which ship; a CSV file; a bench result of another tool.",
        ),
    ] = "public_ladder",
    source: Annotated[
        str | None, typer.Option("--source", help="Whose bench result that is and where it was published.")
    ] = None,
) -> int:
    """Take others' figures in as reported rows: never a verdict of ours."""
    path = content.history(file)
    if path.suffix == ".json":
        if not source:
            raise UsageFault(
                f"{path} does not say whose figures these are", hint="add --source 'who, where, when'"
            )
        found = read_result(path, read(session).rows, ledger_compare.figures_of(path), source)
    elif source:
        raise UsageFault(
            f"{path}: a CSV file says itself where its figures come from",
            hint="leave --source out; write it as # lines",
        )
    else:
        found = read_ladder(path, read(session).rows)
    if isinstance(found, Known):
        session.console.show(
            f"{path}: already in the ledger as row {found.n} since {found.at}; nothing was added"
        )
        session.console.answer({"ok": True, "added": 0, "row": found.n, "ledger": str(session.ledger_path)})
        return 0
    row = Journal(session.ledger_path).append("import", "", found.body, session.clock.today())
    session.console.show(f"{path}: {found.rows} reported rows imported as row {row.n}")
    session.console.answer(
        {"ok": True, "added": found.rows, "row": row.n, "ledger": str(session.ledger_path)}
    )
    return 0
