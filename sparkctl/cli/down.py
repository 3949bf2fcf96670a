"""`sparkctl down`: stop a line, and prove that nothing of it is left."""

from bootcheck.findings import Finding
from bootcheck.floors import Floors, override
from launcher import launch, teardown
from ledger import record
from ledger.journal import Journal
from ledger.steps import CLEARED
from sparkctl import ansible, edge
from sparkctl.cli.check import show_findings
from sparkctl.cli.hold import hold
from sparkctl.cli.resume import broken_off
from sparkctl.cli.session import LineOption, RehearsalOption, Session, practise, verb
from sparkctl.errors import Unclear
from sparkctl.line import Line

_LATE_S = 10.0
"""After a killed controller: how long a `docker run` that was under way on a node may take to show its rank. Ours."""

_LOOKS = 3
"""Looks at what a stopped line may have left, while something is just ending: a driver lets go within seconds (getainode/ainode PR#63,
reported)."""


@verb
def down(
    session: Session,
    line: LineOption = None,
    rehearsal: RehearsalOption = False,
) -> int:
    """Stop a line and prove that nothing is left."""
    practise(session, rehearsal, None, start=False)
    chosen = session.line(line)
    with hold(chosen), session.console.work(f"stopping line {chosen.name}"):
        orphans, trace = ansible.end_orphans(chosen), broken_off(session, chosen)
        ended = launch.stop(chosen, session.console.progress)
        if (orphans or trace) and not ended.fault:
            # What a killed controller had under way on a node may still have started a rank after the first look.
            session.clock.sleep(_LATE_S)
            ended = launch.stop(chosen, session.console.progress)
        left: tuple[Finding, ...] = ()
        if not ended.fault:
            _clear(session, chosen)
            left = _look(session, chosen)
    if ended.fault:
        done = f"; nothing is left on {', '.join(ended.done)}" if ended.done else ""
        raise Unclear(
            f"{ended.node}: {ended.fault}{done}",
            hint=ended.hint or "sparkctl status says what still runs",
        )
    return _show(session, chosen, left)


def _look(session: Session, line: Line) -> tuple[Finding, ...]:
    """Look at what a stopped line may have left; what only needs a moment gets one."""
    found: tuple[Finding, ...] = ()
    for _ in range(_LOOKS):
        found = teardown.look(
            line,
            override(Floors(), line.floors, f"floors of line {line.name} in the inventory"),
            session.clock.today(),
            lambda answer: session.console.progress(ansible.describe(answer)),
        )
        if not any(one.settles for one in found):
            break
        session.clock.sleep(_LATE_S)
    return found


def _show(session: Session, line: Line, left: tuple[Finding, ...]) -> int:
    """Say that nothing is left, or what is: of the line itself it is a no, of others a warning."""
    console = session.console
    show_findings(console, left, everything=False)
    held = [one for one in left if one.verdict == "fail" and teardown.is_ours(one)]
    unknown = [one for one in left if one.verdict == "unknown"]
    nodes = f"{len(line.nodes)} nodes"
    if held:
        console.show(f"line {line.name} is stopped, and not everything was given back: {_named(held)}")
    elif unknown:
        console.show(
            f"line {line.name} is stopped; whether all was given back is not known: {_named(unknown)}"
        )
    else:
        console.show(
            f"line {line.name} is down: no container, engine, port or shared memory of it is left on {nodes}"
        )
    console.answer(
        {
            "line": line.name,
            "ok": not (held or unknown),
            "findings": edge.plain(left),
            "simulated": session.simulated,
        }
    )
    return 1 if held else 3 if unknown else 0


def _named(findings: list[Finding]) -> str:
    return "; ".join(f"{one.node}, {one.gate}: {one.measured}" for one in findings)


def _clear(session: Session, line: Line) -> None:
    """Note that a boot which had broken off is cleared."""
    trace = broken_off(session, line)
    if trace:
        body = record.step(
            boot=trace.boot,
            stage=CLEARED,
            state="done",
            why="",
            recipe_digest=trace.recipe_digest,
            simulated=session.simulated,
        )
        Journal(session.ledger_path).append("step", line.name, body, session.clock.today())
