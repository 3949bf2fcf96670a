"""`sparkctl bundle`: everything needed to judge a boot elsewhere, in one file, with every secret withheld."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from bootcheck import redact
from bootcheck.facts import Bundle, Context
from launcher import tails
from ledger.journal import Journal
from ledger.steps import rows_of_last_boot
from sparkctl import edge
from sparkctl.cli import kept, served
from sparkctl.cli.check import look
from sparkctl.cli.recorded import read
from sparkctl.cli.session import (
    LineOption,
    RecipeOption,
    RehearsalOption,
    ScenarioOption,
    Session,
    SetOption,
    practise,
    verb,
)
from sparkctl.errors import FileFault
from sparkctl.line import Line


@verb
def bundle(
    session: Session,
    line: LineOption = None,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it there; without this it goes to stdout.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what loads GPU and fabric.")] = False,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
) -> int:
    """Gather everything needed to judge a boot elsewhere; secrets are withheld."""
    if output:
        _write(output, "")  # before the nodes are asked: what cannot be kept need not be gathered
    practise(session, rehearsal, scenario)
    chosen = served.choose(session, line, recipe, set_)
    found = look(session, chosen, quick=quick)
    with session.console.work(f"gathering logs of line {chosen.line.name}"):
        last = rows_of_last_boot(read(session).rows, chosen.line.name, simulated=session.simulated)
        rows = Journal(session.ledger_path).whole({row.n for row in last})
        whole = dataclasses.replace(found, logs=_logs(session, chosen.line), rows=edge.plain(rows))
    text = json.dumps(document(whole), indent=1, ensure_ascii=False)
    if output is None:
        session.console.data(text)
        return 0
    _write(output, text)
    session.console.show(f"{output}: {len(text.encode()) / 1024:.0f} KiB; read it before you post it")
    session.console.answer({"line": chosen.line.name, "bundle": str(output), "simulated": session.simulated})
    return 0


def document(found: Bundle) -> dict[str, Any]:
    """Return a bundle as the JSON document that is written: without secrets, and without paths of this controller."""
    whole = dataclasses.replace(found, context=_without_paths(found.context), logs={})
    told: dict[str, Any] = redact.document(edge.plain(whole))
    return {**told, "logs": {node: list(redact.lines(log)) for node, log in found.logs.items()}}


def _without_paths(context: Context) -> Context:
    nodes = tuple(dataclasses.replace(node, key_file=None, user=None) for node in context.line.nodes)
    line = dataclasses.replace(
        context.line, nodes=nodes, known_hosts=None, source="", recipe=None, api_key_file=None
    )
    return dataclasses.replace(context, line=line)


def _logs(session: Session, line: Line) -> dict[str, tuple[str, ...]]:
    """Return the end of each rank's log; of a rank that was removed after a failed boot, what was kept of it."""
    _, stored = kept.last(session, line)
    read = tails.read(line)
    return {one.node: one.lines or stored.get(one.node, ()) or (one.fault,) for one in read}


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as fault:
        raise FileFault(
            f"{path}: cannot be written: {fault.strerror}", hint="name a file in a folder that can be written"
        ) from fault
