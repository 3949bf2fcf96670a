"""`sparkctl report`: render the ledger into the block of a README, and into a page with plots."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ledger import markers, render
from ledger.entry import Row
from sparkctl import edge
from sparkctl.cli.credited import credits_of
from sparkctl.cli.recorded import read
from sparkctl.cli.session import Session, verb
from sparkctl.errors import FileFault, UsageFault


@verb
def report(
    session: Session,
    readme: Annotated[
        Path | None, typer.Option("--readme", help="Put the block between the markers of this file.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the whole report with plots as this one file.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when a file is stale.")
    ] = False,
) -> int:
    """Render the ledger into the block of a README, or into a page with plots.

    Without --readme and --html the block is printed: best configuration, ladder, reported rows.
    """
    if check and readme is None and html is None:
        raise UsageFault(
            "--check compares a file with the ledger, and none was named",
            hint="add --readme README.md or --html FILE",
        )
    rows = read(session, must_exist=True).rows
    block = render.render(rows, credits_=credits_of(rows))
    if readme is None and html is None:
        session.console.show(block)
        session.console.answer({"ok": True, "block": block})
        return 0
    stale = [_block(session, readme, rows, check=check)] if readme else []
    stale += [_page(session, html, rows, check=check)] if html else []
    session.console.answer(
        {
            "ok": not (any(stale) and check),
            "changed": any(stale),
            "readme": str(readme) if readme else None,
            "html": str(html) if html else None,
        }
    )
    return 1 if any(stale) and check else 0


def _block(session: Session, readme: Path, rows: Sequence[Row], *, check: bool) -> bool:
    """Put the blocks into a file unless they are there already, and return whether they were not."""
    before, credits_ = edge.read_text(readme), credits_of(rows)
    try:
        after = markers.splice(before, lambda what: render.render(rows, what, credits_))
    except markers.MarkerFault as fault:
        raise FileFault(
            f"{readme}: {fault}",
            hint=f"put these two lines where the block belongs:\n{markers.START}\n{markers.END}",
        ) from fault
    return _renewed(session, readme, "the block", before, after, check=check)


def _page(session: Session, html: Path, rows: Sequence[Row], *, check: bool) -> bool:
    """Write the page unless it is there already, and return whether it was not."""
    from ledger.page.page import page  # noqa: PLC0415  # a README's block needs no plots
    from sparkctl.cli import report_facts  # noqa: PLC0415

    before = edge.read_text(html) if html.exists() else ""
    return _renewed(
        session, html, "the page", before, page(rows, report_facts.facts(rows), credits_of(rows)), check=check
    )


def _renewed(session: Session, path: Path, noun: str, before: str, after: str, *, check: bool) -> bool:
    stale = before != after
    if stale and not check:
        _write(path, after)
    said = "stale" if check else "rewritten" if before else "written"
    session.console.show(f"{path}: {noun} is {said if stale else 'up to date'}")
    return stale


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode("utf-8"))
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault}", hint="check its permissions") from fault
