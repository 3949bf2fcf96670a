"""`sparkctl boot`: bring a line up, and write down every step of it."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from bootcheck import redact
from bootcheck.findings import Finding
from launcher import boot as ritual
from launcher.plan import STAGES, STOP, Boot, Plan, Progress, Report
from launcher.recipe import digest
from ledger import record
from ledger.journal import Journal
from sparkctl import ansible, edge
from sparkctl.cli import served
from sparkctl.cli.check import show_findings
from sparkctl.cli.hold import hold
from sparkctl.cli.resume import demand_no_streak, resumed
from sparkctl.cli.session import (
    LineOption,
    RecipeOption,
    RehearsalOption,
    ScenarioOption,
    Session,
    SetOption,
    practise,
    verb,
)
from sparkctl.console import Console
from sparkctl.errors import Interrupted, SparkctlError
from sparkctl.line import Line
from sparkctl.units import duration, gib

_TITLES = dict((*STAGES, STOP))


@verb
def boot(
    session: Session,
    line: LineOption = None,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print every step, node and command; touch nothing.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the boot that broke off, from what is proven.")
    ] = False,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="Also raise running MTUs and set the inventory's sysctls, until the next reboot."
        ),
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="GATE", help="Boot although this gate fails or cannot be judged."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Boot although the last two boots failed.")] = False,
) -> int:
    """Run the ritual and launch; ready means answered sensibly."""
    practise(session, rehearsal, scenario, restart=not (plan or resume))
    chosen = served.choose(session, line, recipe, set_)
    ready = Plan(
        boot=session.new_id("boot"),
        line=chosen.line,
        recipe=chosen.recipe,
        floors=chosen.floors,
        apply=apply,
        accepted=served.accepted(chosen.line, accept),
    )
    if plan:
        return _show_plan(session, ready)
    with hold(chosen.line), session.console.work(f"booting line {chosen.line.name}"):
        ansible.end_orphans(chosen.line)
        if resume:
            ready = resumed(session, ready)
        elif not again:
            demand_no_streak(session, chosen.line)
        ended = boot_and_record(session, ready, stage_teller(session.console))
    return _show_boot(session, chosen.line, ended)


def boot_and_record(
    session: Session, plan: Plan, report: Report, *, climb: str | None = None, on: tuple[str, ...] = ()
) -> Boot:
    """Run the ritual and write its row, also when it is interrupted or breaks off."""
    began = session.clock.monotonic_s()

    def write(
        why: str,
        seconds: float,
        findings: tuple[Finding, ...] = (),
        lowest: Mapping[str, int] | None = None,
        *,
        void: bool,
    ) -> None:
        row = record.boot(
            boot=plan.boot,
            climb=climb,
            on=on,
            why=why,
            simulated=session.simulated,
            recipe_digest=digest(plan.recipe),
            seconds=seconds,
            findings=tuple(edge.plain(findings)),
            void=void,
            lowest=lowest,
            accepted=plan.accepted,
        )
        Journal(session.ledger_path).append("boot", plan.line.name, row, session.clock.today())

    try:
        ended = ritual.boot(plan, session.clock, _noting(session, plan, report))
    except (KeyboardInterrupt, SparkctlError, OSError) as fault:
        write(f"broken off: {str(fault) or 'interrupted'}", session.clock.monotonic_s() - began, void=True)
        if isinstance(fault, (KeyboardInterrupt, Interrupted)):
            told = "" if isinstance(fault, KeyboardInterrupt) else fault.hint
            raise Interrupted(
                f"the boot of line {plan.line.name} was interrupted; no rank of it was left running",
                hint=told or "sparkctl boot starts it again",
            ) from None
        raise
    why = "" if ended.ok else f"{ended.node}: {ended.why}"
    write(
        why,
        ended.seconds,
        ended.findings,
        ended.lowest,
        void=not ended.ok and not ended.blames_what_was_booted,
    )
    return ended


def _noting(session: Session, plan: Plan, report: Report) -> Report:
    """Write a step before and after each stage, on disk before the stage goes on."""
    recipe_digest = digest(plan.recipe)

    def note(progress: Progress) -> None:
        if progress.state in {"began", "done", "failed"}:
            body = record.step(
                boot=plan.boot,
                stage=progress.stage,
                state=progress.state,
                why=progress.detail,
                recipe_digest=recipe_digest,
                simulated=session.simulated,
            )
            Journal(session.ledger_path).append("step", plan.line.name, body, session.clock.today())
        report(progress)

    return note


def stage_teller(console: Console, prefix: str = "") -> Report:
    """Return what tells a boot's progress: a stage when it ends, details beside the clock; `prefix` goes before those."""
    since: dict[str, float] = {}

    def tell(progress: Progress) -> None:
        match progress.state:
            case "began":
                since[progress.stage] = progress.seconds
                console.step(f"{prefix}{progress.stage}: {_TITLES[progress.stage]}")
            case "tells":
                if progress.detail:
                    console.progress(f"{prefix}{progress.stage}: {progress.detail}")
            case "warns":
                console.warn(progress.detail)
            case "changes":
                console.say(f"changed {progress.detail}")
            case "done" | "failed":
                took = progress.seconds - since.get(progress.stage, progress.seconds)
                console.stage(f"{progress.state:<6} {progress.stage}: {_TITLES[progress.stage]}", took)

    return tell


def _show_boot(session: Session, line: Line, ended: Boot) -> int:
    console = session.console
    code = 0 if ended.ok else 3 if ended.unclear else 1
    show_findings(console, ended.findings, everything=False)
    for text in ended.log:
        console.say(f"  | {text}")
    for text in _memory(ended):
        console.say(text)
    if ended.ok:
        console.show(f"line {line.name} is ready at {line.url} after {duration(ended.seconds)}")
    else:
        console.show(f"line {line.name} did not boot: {ended.stage}, {ended.node}: {ended.why}")
        if ended.hint:
            console.say(f"\nhint: {ended.hint}")
    answer: dict[str, Any] = edge.plain(ended)
    console.answer(
        {**answer, "ok": ended.ok, "url": line.url if ended.ok else None, "simulated": session.simulated}
    )
    return code


def _memory(ended: Boot) -> Iterator[str]:
    """Say what the guard saw while ranks loaded."""
    if ended.lowest:
        told = ", ".join(f"{node} {gib(size)}" for node, size in ended.lowest.items())
        yield f"lowest MemAvailable while it loaded: {told}"
    if ended.flushes:
        told = ", ".join(f"{node} {times} times" for node, times in ended.flushes.items())
        yield f"page cache was dropped while it loaded: {told}"
    for text in ended.observed:
        yield f"the guard only observed; enforcing it would have stopped every rank: {text}"


def _show_plan(session: Session, plan: Plan) -> int:
    commands = plan.commands()
    steps = [
        {"stage": stage, "about": about, "nodes": [one.name for one in plan.line.nodes]}
        for stage, about in STAGES
    ]
    by_node = {one.node: one for one in commands}
    ordered = [by_node[node.name] for node in plan.line.workers_first]
    shown = {one.node: redact.argv(one.argv) for one in ordered}
    for step in steps:
        session.console.show(f"{step['stage']}: {step['about']}")
        if step["stage"] == "launch":
            for one in ordered:
                session.console.show(f"  {one.node} (rank {one.rank}): {shlex.join(shown[one.node])}")
    session.console.answer(
        {
            "line": plan.line.name,
            "recipe": redact.document(edge.plain(plan.recipe)),
            "steps": steps,
            "commands": [
                {"node": one.node, "rank": one.rank, "argv": list(shown[one.node])} for one in ordered
            ],
            "simulated": session.simulated,
        }
    )
    return 0
