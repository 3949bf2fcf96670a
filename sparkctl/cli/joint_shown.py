"""The end of a climb over several lines on the console: the verdicts of both, and what each line confirmed by itself."""

from ledger.record import confirmed
from sparkctl.cli import tune_shown
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from tuner.joint import Joint
from tuner.lever import Ladder
from tuner.steps import name_of


def show(session: Session, lines: tuple[Served, ...], rungs: Ladder, ended: Joint) -> int:
    """Print it, and return the exit code: 0 when no lever is open, 4 when one is, 1 when no line's base came up."""
    names = tuple(one.line.name for one in lines)
    tune_shown.verdicts(session, ended.verdicts)
    booted = ", ".join(f"{len(ended.on(name).trials)} of line {name}" for name in names)
    session.console.show(
        f"stack of lines {' and '.join(names)}: {name_of(ended.stack)}, after {len(ended.trials)} boots, {booted}; {tune_shown.reached(ended)}"
    )
    for name in names:
        for text in tune_shown.told(ended.confirmed.get(name)):
            session.console.show(f"line {name}: {text}")
    for text in tune_shown.broken(ended.broken):
        session.console.show(text)
    for name, why in ended.away.items():
        session.console.warn(
            f"line {name} left the climb ({why}); the stack is not confirmed there, and does not serve"
        )
    tune_shown.serving(session, rungs, ended.stack, tuple(name for name in names if name not in ended.away))
    proven = {
        name: {
            "boots": len(ended.on(name).trials),
            "confirmed": confirmed(ended.confirmed.get(name)),
            "away": ended.away.get(name),
        }
        for name in names
    }
    return tune_shown.answered(session, rungs, ended, "+".join(names), {"lines": proven})
