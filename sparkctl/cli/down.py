"""`sparkctl down`: stop a line, and prove that nothing of it is left."""

from launcher import launch
from ledger import record
from ledger.journal import Journal
from ledger.steps import CLEARED
from sparkctl import ansible
from sparkctl.cli.hold import hold
from sparkctl.cli.resume import broken_off
from sparkctl.cli.session import LineOption, RehearsalOption, Session, practise, verb
from sparkctl.errors import Unclear
from sparkctl.line import Line

_LATE_S = 10.0
"""After a killed controller: how long a `docker run` that was under way on a node may take to show its rank. Ours."""


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
        if not ended.fault:
            _clear(session, chosen)
    if ended.fault:
        done = f"; nothing is left on {', '.join(ended.done)}" if ended.done else ""
        raise Unclear(
            f"{ended.node}: {ended.fault}{done}",
            hint=ended.hint or "sparkctl status says what still runs",
        )
    session.console.show(
        f"line {chosen.name} is down: no container of it is left on {len(chosen.nodes)} nodes"
    )
    session.console.answer({"line": chosen.name, "ok": True, "simulated": session.simulated})
    return 0


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
