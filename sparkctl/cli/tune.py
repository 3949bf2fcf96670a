"""`sparkctl tune`: climb a ladder of levers on a line, and write every boot and verdict to the ledger."""

from enum import StrEnum
from typing import Annotated

import typer

from launcher.overlay import find_fault
from sparkctl import content, edge
from sparkctl.cli import course, rejudged, served, tune_plan, workloads
from sparkctl.cli.course import Wish
from sparkctl.cli.served import Served
from sparkctl.cli.session import RehearsalOption, ScenarioOption, Session, practise, verb
from sparkctl.cli.watch import EventsOption, NotifyOption, watching
from sparkctl.errors import FileFault, UsageFault
from sparkctl.units import hours
from tuner import lever as levers
from tuner.factorial.pooled import LINES
from tuner.lever import Ladder
from tuner.quality.battery import Battery
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


LinesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--line",
        help="Which line, needed when the inventory has several; twice for two lines that climb at once.",
    ),
]
LadderOption = Annotated[str, typer.Option("--ladder", help="A ladder by name or path.")]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="Plan for this time, as 12h or 90m, and stop then."),
]
BootsOption = Annotated[
    int | None, typer.Option("--boots", min=1, help="Plan for so many boots in all, and stop then.")
]
DesignOption = Annotated[
    DesignName | None,
    typer.Option("--design", help="All levers at once in factorial blocks (the default), or one at a time."),
]
RuleOption = Annotated[
    RuleName, typer.Option("--rule", help="Proof, or one boot a lever as the seeds' ladder has it.")
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", min=1, help="Draw the order of boots from this number.")
]
CalibrateOption = Annotated[
    bool,
    typer.Option("--calibrate", help="Boot the base alone, --boots times (6), to learn the line's noise."),
]
JudgeOption = Annotated[
    bool,
    typer.Option("--judge-only", help="Boot nothing: say what figures of others in the ledger prove."),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the line's last climb.")]
PlanOption = Annotated[
    bool, typer.Option("--plan", help="Print the levers, the cost and the worth of it; touch nothing.")
]


@verb
def tune(
    session: Session,
    line: LinesOption = None,
    ladder: LadderOption = DEFAULT_LADDER,
    budget: BudgetOption = None,
    boots: BootsOption = None,
    design: DesignOption = None,
    rule: RuleOption = RuleName.proof,
    seed: SeedOption = None,
    calibrating: CalibrateOption = False,
    judge_only: JudgeOption = False,
    resume: ResumeOption = False,
    plan: PlanOption = False,
    events: EventsOption = None,
    notify: NotifyOption = None,
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
    lines, rungs, workload = _read(session, line, ladder)
    watched = watching(session.console, session.clock, stages=calibrating, events=events, notify=notify)
    if calibrating:
        from sparkctl.cli import calibrate  # noqa: PLC0415  # as below

        return calibrate.run(session, _single(lines), workload, boots=boots, plan=plan, watched=watched)
    planned = None if resume and not plan else course.choose(session, lines, rungs, workload, wish)
    if plan and planned:
        return tune_plan.show(session, lines, rungs, planned)
    from sparkctl.cli import ascent  # noqa: PLC0415  # what boots loads 0.3 s of modules that a plan must not pay

    return ascent.climb(session, lines, rungs, workload, planned=planned, wish=wish, watched=watched)


def _single(lines: tuple[Served, ...]) -> Served:
    if len(lines) > 1:
        raise UsageFault(
            f"--calibrate measures the noise of one line, and {len(lines)} are named",
            hint="calibrate one after the other; each line's own noise is planned with",
        )
    return lines[0]


def _hours(budget: str | None, boots: int | None) -> float | None:
    if budget is None:
        return None
    if boots is not None:
        raise UsageFault("--budget and --boots both say when to stop", hint="name one of them")
    try:
        return hours(budget)
    except ValueError as fault:
        raise UsageFault(f"--budget: {fault}", hint="--budget 12h plans for a night") from fault


def _read(
    session: Session, names: list[str] | None, ladder: str
) -> tuple[tuple[Served, ...], Ladder, Workload]:
    path = content.ladder(ladder)
    rungs = edge.read(path, Ladder)
    chosen_lines = (served.choose(session, name, rungs.recipe, None) for name in names or (None,))
    lines = tuple(sorted(chosen_lines, key=lambda one: one.line.name))
    _demand_apart(lines)
    chosen = lines[0]
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
        for battery in lever.batteries:
            edge.read(content.quality(battery), Battery)
    return lines, rungs, workload


def _demand_apart(lines: tuple[Served, ...]) -> None:
    """Refuse lines that are one, share a node, or are more than climb together.

    Raises:
        UsageFault: as above.

    """
    if len(lines) > LINES:
        raise UsageFault(
            f"{len(lines)} lines are named, and at most {LINES} climb together",
            hint="name --line twice; a third line climbs by itself",
        )
    nodes = [{(node.host, node.port): node.name for node in one.line.nodes} for one in lines]
    if len(lines) == LINES and (shared := nodes[0].keys() & nodes[1].keys()):
        names = ", ".join(sorted(nodes[0][key] for key in shared))
        raise UsageFault(
            f"lines {lines[0].line.name} and {lines[1].line.name} share {names}; each boot of one would stop the other",
            hint="name two lines with nodes of their own",
        )
