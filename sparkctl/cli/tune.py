"""`sparkctl tune`: climb a ladder of levers on a line, and write every boot and verdict to the ledger."""

from enum import StrEnum
from typing import Annotated

import typer

from launcher.overlay import find_fault
from sparkctl import ansible, content, edge
from sparkctl.cli import calibrate, climber, course, rejudged, served, tune_plan, tune_shown, workloads
from sparkctl.cli.climber import Limit
from sparkctl.cli.course import Wish
from sparkctl.cli.hold import hold
from sparkctl.cli.served import Served
from sparkctl.cli.session import LineOption, RehearsalOption, ScenarioOption, Session, practise, verb
from sparkctl.errors import FileFault, UsageFault
from sparkctl.units import hours
from tuner import lever as levers
from tuner.lever import Ladder
from tuner.workload import Workload, quantities

DEFAULT_LADDER = "demo"


class DesignName(StrEnum):
    """Designs of a climb, see `tuner.course`."""

    factorial = "factorial"
    ladder = "ladder"


class RuleName(StrEnum):
    """Rules of a climb, see `tuner.course`."""

    proof = "proof"
    seed = "seed"


@verb
def tune(
    session: Session,
    line: LineOption = None,
    ladder: Annotated[str, typer.Option("--ladder", help="A ladder by name or path.")] = DEFAULT_LADDER,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="Plan for this time, as 12h or 90m, and stop then."),
    ] = None,
    boots: Annotated[
        int | None, typer.Option("--boots", min=1, help="Plan for so many boots in all, and stop then.")
    ] = None,
    design: Annotated[
        DesignName | None,
        typer.Option(
            "--design", help="All levers at once in factorial blocks (the default), or one at a time."
        ),
    ] = None,
    rule: Annotated[
        RuleName, typer.Option("--rule", help="Proof, or one boot a lever as the seeds' ladder has it.")
    ] = RuleName.proof,
    seed: Annotated[
        int | None, typer.Option("--seed", min=1, help="Draw the order of boots from this number.")
    ] = None,
    calibrating: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Boot the base alone, --boots times (6), to learn the line's noise."
        ),
    ] = False,
    judge_only: Annotated[
        bool,
        typer.Option("--judge-only", help="Boot nothing: say what figures of others in the ledger prove."),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the line's last climb.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the levers, the cost and the worth of it; touch nothing.")
    ] = False,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
) -> int:
    """Climb a ladder of levers with bounded error."""
    wish = Wish(
        design=design.value if design else None,
        rule=rule.value,
        seed=seed,
        boots=boots,
        hours=_hours(budget, boots),
    )
    if resume and (design or seed or rule is RuleName.seed or calibrating):
        raise UsageFault(
            "a climb goes on by the design, rule and seed it began with",
            hint="leave --design, --rule, --seed and --calibrate out beside --resume",
        )
    if judge_only:
        rungs = edge.read(content.ladder(ladder), Ladder)
        return rejudged.show(session, rungs, workloads.read(rungs.workload))
    practise(session, rehearsal, scenario, restart=not plan)
    chosen, rungs, workload = _read(session, line, ladder)
    if calibrating:
        return calibrate.run(session, chosen, workload, boots=boots, plan=plan)
    planned = None if resume and not plan else course.choose(session, chosen, rungs, workload, wish)
    if plan and planned:
        return tune_plan.show(session, chosen, rungs, planned)
    limit = Limit(
        boots=planned.boots if planned else boots,
        hours=wish.hours,
        minutes_a_boot=planned.outlook.minutes_a_boot if planned else 0.0,
    )
    with hold(chosen.line):
        ansible.end_orphans(chosen.line)
        ended = climber.run(session, chosen, rungs, workload, planned=planned, limit=limit)
    return tune_shown.show(session, chosen, rungs, ended)


def _hours(budget: str | None, boots: int | None) -> float | None:
    if budget is None:
        return None
    if boots is not None:
        raise UsageFault("--budget and --boots both say when to stop", hint="name one of them")
    try:
        return hours(budget)
    except ValueError as fault:
        raise UsageFault(f"--budget: {fault}", hint="--budget 12h plans for a night") from fault


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
