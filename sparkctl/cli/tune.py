"""`sparkctl tune`: climb a ladder of levers on a line, and write every boot and verdict to the ledger."""

import json
import shlex
from typing import Annotated

import typer

from launcher.overlay import find_fault
from sparkctl import ansible, content, edge
from sparkctl.cli import climber, lever_effects, served, workloads
from sparkctl.cli.hold import hold
from sparkctl.cli.served import Served
from sparkctl.cli.session import LineOption, RehearsalOption, ScenarioOption, Session, practise, verb
from sparkctl.console import Column
from sparkctl.errors import FileFault
from sparkctl.units import percent
from tuner import ladder as steps
from tuner import lever as levers
from tuner.climb import Climb
from tuner.ladder import name_of
from tuner.lever import Ladder
from tuner.predicted import shown
from tuner.verdict import answer
from tuner.workload import Workload, quantities

DEFAULT_LADDER = "demo"


@verb
def tune(
    session: Session,
    line: LineOption = None,
    ladder: Annotated[str, typer.Option("--ladder", help="A ladder by name or path.")] = DEFAULT_LADDER,
    boots: Annotated[
        int | None, typer.Option("--boots", min=1, help="Stop after so many boots in all.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the line's last climb.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the levers and the first boot; touch nothing.")
    ] = False,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
) -> int:
    """Climb a ladder of levers with bounded error."""
    practise(session, rehearsal, scenario, restart=not plan)
    chosen, rungs, workload = _read(session, line, ladder)
    if plan:
        return _show_plan(session, chosen, rungs, boots)
    with hold(chosen.line):
        ansible.end_orphans(chosen.line)
        ended = climber.run(session, chosen, rungs, workload, resume=resume, boots=boots)
    return _show(session, chosen, rungs, ended)


def _read(session: Session, line: str | None, ladder: str) -> tuple[Served, Ladder, Workload]:
    path = content.ladder(ladder)
    rungs = edge.read(path, Ladder)
    chosen = served.choose(session, line, rungs.recipe, None)
    workload = workloads.read(rungs.workload)
    faults = levers.check(
        rungs,
        lambda key, value: find_fault(chosen.recipe, key, value, chosen.engine),
        quantities(workload),
    )
    if faults:
        raise FileFault(
            "\n".join(f"{path}: {fault}" for fault in faults),
            hint="sparkctl boot --plan shows every key of the recipe; docs/formats.md describes ladders",
        )
    for lever in rungs.levers:
        chosen.with_settings(lever.set)
    return chosen, rungs, workload


def _show_plan(session: Session, chosen: Served, rungs: Ladder, boots: int | None) -> int:
    first = steps.next_step(rungs, ())
    most = sum(one.kind == "speed" for one in rungs.levers) * 2 * rungs.boots.most
    effects = lever_effects.of_ladder(chosen, rungs)
    session.console.table(
        (
            *(Column(title=title) for title in ("lever", "kind")),
            Column(title="sets", fold=True),
            Column(title="predicted", fold=True),
            Column(title="reported by others", fold=True),
            Column(title="risk", fold=True),
        ),
        [
            (
                one.id,
                one.kind,
                ", ".join(f"{key}={json.dumps(value)}" for key, value in one.set.items()),
                "\n".join(shown(effect) for effect in effects[one.id]) or "not modelled",
                "\n".join(_reported(metric, ends) for metric, ends in one.reported.items()),
                one.risk,
            )
            for one in rungs.levers
        ],
    )
    session.console.show(
        f"ladder {rungs.name} on line {chosen.line.name}: {len(rungs.levers)} levers, each at least "
        f"{rungs.boots.least} measured boots on either side, at most {most} in all; voids and failures come on top"
        + (f", stopped after {boots}" if boots else "")
    )
    if numeric := [one.id for one in rungs.levers if one.numerics]:
        session.console.show(
            f"{', '.join(numeric)}: meant to change numerics, so accepted only with a passed quality run on record: keep a "
            "reference and its floor first (docs/quality.md)"
        )
    session.console.answer(
        {
            "line": chosen.line.name,
            "ladder": edge.plain(rungs),
            "most_boots": min(most, boots) if boots else most,
            "first": edge.plain(first),
            "predicted": edge.plain(effects),
            "simulated": session.simulated,
        }
    )
    return 0


def _reported(metric: str, ends: tuple[float, float]) -> str:
    low, high = (percent(1 + end) for end in ends)
    return f"{metric} {low}" if low == high else f"{metric} {low} to {high}"


def _show(session: Session, chosen: Served, rungs: Ladder, ended: Climb) -> int:
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
