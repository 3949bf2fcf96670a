"""A climb's end on the console: a verdict a lever, the stack, and how to serve it."""

import json
import shlex
from collections.abc import Iterator, Mapping

from ledger.entry import Json
from ledger.record import confirmed
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.console import Column
from sparkctl.units import percent
from tuner.climb import Climb
from tuner.joint import Joint
from tuner.lever import Ladder
from tuner.statistics import spread
from tuner.steps import Confirmed, On, name_of
from tuner.verdict import Verdict, answer


def show(session: Session, chosen: Served, rungs: Ladder, ended: Climb) -> int:
    """Print it, and return the exit code: 0 when no lever is open, 4 when one is, 1 when the base failed."""
    verdicts(session, ended.verdicts)
    session.console.show(
        f"stack of line {chosen.line.name}: {name_of(ended.stack)}, after {len(ended.trials)} boots; {reached(ended)}"
    )
    for text in (*told(ended.confirmed), *broken(ended.broken)):
        session.console.show(text)
    serving(session, rungs, ended.stack, (chosen.line.name,))
    return answered(session, rungs, ended, chosen.line.name, {"confirmed": confirmed(ended.confirmed)})


def reached(ended: Climb | Joint) -> str:
    """Say how far a climb came; one that judged every lever it could names those that stay open."""
    return f"left open: {', '.join(ended.open)}" if ended.end == "done" and ended.open else ended.why


def answered(
    session: Session, rungs: Ladder, ended: Climb | Joint, line: str, proven: Mapping[str, Json]
) -> int:
    """Give the answer of --json, with what was `proven` on fresh boots, and return the exit code as `show` does."""
    session.console.answer(
        {
            "line": line,
            "verdicts": [answer(one) for one in ended.verdicts],
            "stack": list(ended.stack),
            **proven,
            "broken_pairs": [list(pair) for pair in ended.broken],
            "boots": len(ended.trials),
            "ledger": str(session.ledger_path),
            "simulated": session.simulated,
            "ladder": rungs.name,
            "open": list(ended.open),
            "end": ended.end,
        }
    )
    if ended.end == "base":
        return 1
    return 4 if ended.open else 0


def verdicts(session: Session, found: tuple[Verdict, ...]) -> None:
    """Print a verdict a lever as a table."""
    if not found:
        return
    label = " (simulated)" if session.simulated else ""
    session.console.table(
        (
            *(Column(title=title) for title in (f"lever{label}", "verdict", "boots", "voids", "seeds' rule")),
            Column(title="why", fold=True),
        ),
        [(one.lever, one.verdict, str(one.boots), str(one.voids), one.seed_rule, one.why) for one in found],
    )


def serving(session: Session, rungs: Ladder, stack: On, lines: tuple[str, ...]) -> None:
    """Say how to serve a stack on these lines."""
    by_id = {lever.id: lever for lever in rungs.levers}
    settings = [pair for name in stack for pair in by_id[name].set.items()]
    pairs = " ".join(shlex.join(("--set", f"{key}={json.dumps(value)}")) for key, value in settings)
    for line in lines if stack else ():
        session.console.say(f"to serve it: sparkctl boot --line {line} {pairs}")


def told(found: Confirmed | None) -> Iterator[str]:
    """Tell what fresh boots say of the stack, and of each lever by its absence."""
    if found is None:
        return
    for name, one in found.gain.items():
        yield f"confirmed on fresh boots: {name} {spread(one)} against the base, {one.n_arm} boots and {one.n_base}"
    for lever, metrics in found.worth.items():
        told = ", ".join(f"{name} {percent(one.estimate)}" for name, one in metrics.items())
        yield f"the stack beside the stack without {lever}, few boots: {told}"
    if found.quality:
        yield f"quality of the stack: {found.quality}"


def broken(pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Tell which levers break together."""
    for one, other in pairs:
        yield f"{one} and {other} came up apart and never together: an interaction, and one of them may stand"
