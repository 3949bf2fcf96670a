"""`sparkctl report`: render the ledger into the block of a README."""

from pathlib import Path
from typing import Annotated

import typer

from ledger import render
from sparkctl import edge
from sparkctl.cli.recorded import read
from sparkctl.cli.session import Session, verb
from sparkctl.errors import FileFault, UsageFault


@verb
def report(
    session: Session,
    readme: Annotated[
        Path | None, typer.Option("--readme", help="Put the block between the markers of this file.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when the file is stale.")
    ] = False,
) -> int:
    """Render the ledger into the block of a README.

    Without --readme the block is printed: best configuration, ladder, reported rows.
    """
    if check and readme is None:
        raise UsageFault(
            "--check compares a file with the ledger, and none was named", hint="add --readme README.md"
        )
    block = render.render(read(session, must_exist=True).rows)
    if readme is None:
        session.console.show(block)
        session.console.answer({"ok": True, "block": block})
        return 0
    before = edge.read_text(readme)
    try:
        after = render.splice(before, block)
    except render.MarkerFault as fault:
        raise FileFault(
            f"{readme}: {fault}",
            hint=f"put these two lines where the block belongs:\n{render.START}\n{render.END}",
        ) from fault
    stale = before != after
    if stale and not check:
        _write(readme, after)
    said = "stale" if check else "rewritten"
    session.console.show(f"{readme}: the block is {said if stale else 'up to date'}")
    session.console.answer({"ok": not (stale and check), "changed": stale, "readme": str(readme)})
    return 1 if stale and check else 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode("utf-8"))
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault}", hint="check its permissions") from fault
