"""A climb's end on the console: a verdict a lever, the stack, and how to serve it."""

import json
import shlex

from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.console import Column
from tuner.climb import Climb
from tuner.lever import Ladder
from tuner.steps import name_of
from tuner.verdict import answer


def show(session: Session, chosen: Served, rungs: Ladder, ended: Climb) -> int:
    """Print it, and return the exit code: 0 when no lever is open, 4 when one is, 1 when the base failed."""
    label = " (simulated)" if session.simulated else ""
    if ended.verdicts:
        session.console.table(
            (
                *(
                    Column(title=title)
                    for title in (f"lever{label}", "verdict", "boots", "voids", "seeds' rule")
                ),
                Column(title="why", fold=True),
            ),
            [
                (one.lever, one.verdict, str(one.boots), str(one.voids), one.seed_rule, one.why)
                for one in ended.verdicts
            ],
        )
    session.console.show(
        f"stack of line {chosen.line.name}: {name_of(ended.stack)}, after {len(ended.trials)} boots; {ended.why}"
    )
    if ended.stack:
        by_id = {lever.id: lever for lever in rungs.levers}
        settings = (pair for name in ended.stack for pair in by_id[name].set.items())
        pairs = " ".join(shlex.join(("--set", f"{key}={json.dumps(value)}")) for key, value in settings)
        session.console.say(f"to serve it: sparkctl boot --line {chosen.line.name} {pairs}")
    session.console.answer(
        {
            "line": chosen.line.name,
            "verdicts": [answer(one) for one in ended.verdicts],
            "stack": list(ended.stack),
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
