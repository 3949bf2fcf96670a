"""`sparkctl boot`, `status`, `logs` and `down`: bring a line up, look at it, take it down."""

import shlex
from typing import Annotated, Any

import typer

from bootcheck.findings import Finding
from launcher import boot as ritual
from launcher import launch
from launcher.boot import Boot, Plan, Progress
from launcher.command import rank_name
from launcher.recipe import digest
from launcher.status import Status, observe
from ledger import record
from ledger.journal import Journal
from sparkctl import edge, unreachable
from sparkctl.cli import served
from sparkctl.cli.check import show_findings
from sparkctl.cli.hold import hold
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
from sparkctl.console import Column, Console
from sparkctl.errors import SparkctlError, Unclear
from sparkctl.line import Line
from sparkctl.shell import Shell
from sparkctl.units import duration

_TITLES = dict((*ritual.STAGES, ritual.STOP))


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
) -> int:
    """Run the ritual and launch; ready means answered sensibly."""
    practise(session, rehearsal, scenario, restart=not plan)
    chosen = served.choose(session, line, recipe, set_)
    ready = Plan(boot=session.new_id("boot"), line=chosen.line, recipe=chosen.recipe, floors=chosen.floors)
    if plan:
        return _show_plan(session, ready)
    with hold(chosen.line), session.console.work(f"booting line {chosen.line.name}"):
        ended = boot_and_record(session, ready, stage_teller(session.console))
    return _show_boot(session, chosen.line, ended)


def boot_and_record(
    session: Session, plan: Plan, report: ritual.Report, *, climb: str | None = None, on: tuple[str, ...] = ()
) -> Boot:
    """Run the ritual and write its row, also when it is interrupted or breaks off."""
    began = session.clock.monotonic_s()

    def write(why: str, seconds: float, findings: tuple[Finding, ...], *, void: bool) -> None:
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
        )
        Journal(session.ledger_path).append("boot", plan.line.name, row, session.clock.today())

    try:
        ended = ritual.boot(plan, session.clock, report)
    except (KeyboardInterrupt, SparkctlError) as fault:
        write(f"broken off: {fault or 'interrupted'}", session.clock.monotonic_s() - began, (), void=True)
        raise
    why = "" if ended.ok else f"{ended.node}: {ended.why}"
    write(why, ended.seconds, ended.findings, void=not ended.ok and not ended.blames_what_was_booted)
    return ended


def stage_teller(console: Console, prefix: str = "") -> ritual.Report:
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


def _show_plan(session: Session, plan: Plan) -> int:
    commands = plan.commands()
    steps = [
        {"stage": stage, "about": about, "nodes": [one.name for one in plan.line.nodes]}
        for stage, about in ritual.STAGES
    ]
    by_node = {one.node: one for one in commands}
    ordered = [by_node[node.name] for node in plan.line.workers_first]
    for step in steps:
        session.console.show(f"{step['stage']}: {step['about']}")
        if step["stage"] == "launch":
            for one in ordered:
                session.console.show(f"  {one.node} (rank {one.rank}): {shlex.join(one.argv)}")
    session.console.answer(
        {
            "line": plan.line.name,
            "recipe": edge.plain(plan.recipe),
            "steps": steps,
            "commands": [{"node": one.node, "rank": one.rank, "argv": list(one.argv)} for one in ordered],
            "simulated": session.simulated,
        }
    )
    return 0


@verb
def status(
    session: Session,
    line: LineOption = None,
    rehearsal: RehearsalOption = False,
) -> int:
    """Say what a line is doing: every rank and the API."""
    practise(session, rehearsal, None, start=False)
    seen = observe(session.line(line), session.clock)
    session.console.table(
        tuple(Column(title=title) for title in ("node", "rank", "state", "since", "boot")),
        [(one.node, str(one.rank), one.state, one.since or one.note, one.boot) for one in seen.ranks],
    )
    session.console.show(f"line {seen.line} is {seen.state}: {seen.note}")
    session.console.answer(
        {**edge.plain(seen), "ok": seen.state == "serving", "simulated": session.simulated}
    )
    return _status_code(seen)


def _status_code(seen: Status) -> int:
    match seen.state:
        case "serving":
            return 0
        case "loading" | "broken" | "down":
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
    """Print the last lines of every rank's log."""
    practise(session, rehearsal, None, start=False)
    chosen = session.line(line)
    names = {node.name: rank_name(chosen, node) for node in chosen.nodes}
    with Shell(chosen) as shell:
        said = shell.run_each(
            {node: ("docker", "logs", "--tail", str(tail), name) for node, name in names.items()}
        )
    found = []
    for one in said:
        text = one.stdout + one.stderr if one.rc is not None else unreachable.say(one.stderr)[0]
        found.append({"node": one.node, "rc": one.rc, "lines": text.splitlines()})
        session.console.show(f"== {one.node}")
        session.console.show(text.rstrip())
    session.console.answer({"line": chosen.name, "logs": found, "simulated": session.simulated})
    return 0 if all(one.rc == 0 for one in said) else 3 if any(one.rc is None for one in said) else 1


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
        ended = launch.stop(chosen, session.console.progress)
    if ended.fault:
        raise Unclear(
            f"{ended.node}: {ended.fault}", hint=ended.hint or "sparkctl status says what still runs"
        )
    session.console.show(
        f"line {chosen.name} is down: no container of it is left on {len(chosen.nodes)} nodes"
    )
    session.console.answer({"line": chosen.name, "ok": True, "simulated": session.simulated})
    return 0
