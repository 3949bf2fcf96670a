"""`sparkctl status` and `logs`: look at a line without touching it."""

from typing import Annotated

import typer

from bootcheck import redact
from launcher.command import rank_name
from launcher.status import Status, observe
from sparkctl import edge, unreachable
from sparkctl.cli.hold import holder
from sparkctl.cli.resume import broken_off
from sparkctl.cli.session import LineOption, RehearsalOption, Session, practise, verb
from sparkctl.console import Column
from sparkctl.line import Line
from sparkctl.shell import Shell


@verb
def status(
    session: Session,
    line: LineOption = None,
    rehearsal: RehearsalOption = False,
) -> int:
    """Say what a line is doing: every rank and the API."""
    practise(session, rehearsal, None, start=False)
    chosen = session.line(line)
    with session.console.work(f"looking at line {chosen.name}"):
        seen = observe(chosen, session.clock, session.console.progress)
    session.console.table(
        tuple(Column(title=title) for title in ("node", "rank", "state", "since", "boot")),
        [(one.node, str(one.rank), one.state, one.since or one.note, one.boot) for one in seen.ranks],
    )
    session.console.show(f"line {seen.line} is {seen.state}: {seen.note}")
    unfinished = _unfinished(session, chosen)
    for hint in filter(None, (unfinished, seen.hint)):
        session.console.say(f"\nhint: {hint}")
    session.console.answer(
        {
            **edge.plain(seen),
            "ok": seen.state == "serving",
            "unfinished": unfinished,
            "simulated": session.simulated,
        }
    )
    return _status_code(seen)


def _unfinished(session: Session, line: Line) -> str:
    """Say which boot broke off and what to do about it; empty when none did, or while somebody works on the line."""
    if holder(line):
        return ""
    trace = broken_off(session, line)
    if trace is None:
        return ""
    return (
        f"{trace.boot} broke off after its step `{trace.stage} {trace.state}` at {trace.at}: "
        "sparkctl boot --resume goes on with it, sparkctl down clears it"
    )


def _status_code(seen: Status) -> int:
    match seen.state:
        case "serving":
            return 0
        case "loading" | "broken" | "frozen" | "down":
            return 1
        case "unclear":
            return 3


@verb
def logs(
    session: Session,
    line: LineOption = None,
    tail: Annotated[int, typer.Option("--tail", min=1, help="How many of each rank's last lines.")] = 40,
    rehearsal: RehearsalOption = False,
) -> int:
    """Print the last lines of every rank's log."""
    practise(session, rehearsal, None, start=False)
    chosen = session.line(line)
    names = {node.name: rank_name(chosen, node) for node in chosen.nodes}
    with Shell(chosen) as shell:
        said = shell.run_each(
            {node: ("docker", "logs", "--tail", str(tail), name) for node, name in names.items()}
        )
    found = []
    for one in said:
        text = redact.text(one.stdout + one.stderr if one.rc is not None else unreachable.say(one.stderr)[0])
        found.append({"node": one.node, "rc": one.rc, "lines": text.splitlines()})
        session.console.show(f"== {one.node}")
        session.console.show(text.rstrip())
    session.console.answer({"line": chosen.name, "logs": found, "simulated": session.simulated})
    return 0 if all(one.rc == 0 for one in said) else 3 if any(one.rc is None for one in said) else 1
