"""`sparkctl status` and `logs`: look at a line without touching it."""

import time
from dataclasses import replace
from typing import Annotated

import typer

from launcher import canary as canaries
from launcher import tails
from launcher.canary import EVERY_S, judge
from launcher.status import Status, Verdict, observe
from sparkctl import edge
from sparkctl.cli import kept
from sparkctl.cli.hold import holder
from sparkctl.cli.resume import broken_off
from sparkctl.cli.session import LineOption, RehearsalOption, Session, practise, verb
from sparkctl.console import Column
from sparkctl.errors import FileFault
from sparkctl.line import Line


@verb
def status(
    session: Session,
    line: LineOption = None,
    canary: Annotated[
        bool,
        typer.Option(
            "--canary",
            help="Ask a line that serves for one token too, at most every two minutes: a green API proves less.",
        ),
    ] = False,
    rehearsal: RehearsalOption = False,
) -> int:
    """Say what a line is doing: every rank and the API."""
    practise(session, rehearsal, None, start=False)
    chosen = session.line(line)
    with session.console.work(f"looking at line {chosen.name}"):
        seen = observe(chosen, session.clock, session.console.progress)
        if canary and seen.state == "serving":
            seen = _asked(session, chosen, seen)
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


def _asked(session: Session, line: Line, seen: Status) -> Status:
    """Ask for a token, unless that was done not long ago."""
    last = session.state / "canaries" / line.identity
    every_s = session.clock.real_s(EVERY_S)
    ago_s = time.time() - last.stat().st_mtime if last.exists() else every_s
    if 0 <= ago_s < every_s:
        told = f"no token was asked for: the last time was {ago_s / every_s * EVERY_S:.0f} s ago, wanted {EVERY_S:g} s"
        return replace(seen, note=f"{seen.note}; {told}")
    try:
        last.parent.mkdir(parents=True, exist_ok=True)
        last.touch()
    except OSError as fault:
        raise FileFault(
            f"{last}: cannot be written: {fault}", hint="name another folder with --state"
        ) from fault
    verdict = judge(
        Verdict(state="serving", note=seen.note), canaries.ask(line, seen.serves[0], session.clock)
    )
    return replace(seen, state=verdict.state, note=verdict.note, hint=verdict.hint)


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
    """Print the last lines of every rank's log.

    After a boot that failed, those that were kept of it: stopping removed its containers.
    """
    practise(session, rehearsal, None, start=False)
    chosen = session.line(line)
    read = tails.read(chosen, tail)
    boot, stored = kept.last(session, chosen) if any(one.is_gone for one in read) else ("", {})
    found = []
    for one in read:
        lines = stored.get(one.node, ())[-tail:] if one.is_gone else one.lines
        title = f"{one.node}, kept of {boot} before it was stopped" if one.is_gone and lines else one.node
        session.console.show(f"== {title}")
        session.console.show("\n".join(lines) or one.fault or "its log is empty")
        found.append(
            {
                "node": one.node,
                "lines": list(lines),
                "fault": one.fault,
                "kept_of": boot if one.is_gone and lines else "",
            }
        )
    silent = any(one.is_silent for one in read)
    ok = all(not one.fault or (one.is_gone and stored.get(one.node)) for one in read)
    session.console.answer({"line": chosen.name, "ok": ok, "logs": found, "simulated": session.simulated})
    return 0 if ok else 3 if silent else 1
