"""`sparkctl boot`: bring a line up, and write down every step of it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from launcher.capacity import MARGIN_GIB
from launcher.plan import Boot, Plan
from sparkctl import ansible, edge
from sparkctl.cli import kept, memory_table, served, usual
from sparkctl.cli.boot_plan import show_plan
from sparkctl.cli.check import show_findings
from sparkctl.cli.hold import hold
from sparkctl.cli.recorded_boot import boot_and_record
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
from sparkctl.cli.watch import EventsOption, NotifyOption, Teller, watching
from sparkctl.errors import UsageFault
from sparkctl.live.event import Began, Booting, Ended, Outcome
from sparkctl.units import duration, gib, times


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
    events: EventsOption = None,
    notify: NotifyOption = None,
) -> int:
    """Run the ritual and launch; ready means answered sensibly."""
    if plan and resume:
        raise UsageFault(
            "--plan is given with --resume; what is left to do is found out on the nodes, and a plan touches none",
            hint="sparkctl status says where the boot broke off",
        )
    practise(session, rehearsal, scenario, restart=not (plan or resume))
    chosen = served.choose(session, line, recipe, set_)
    ready = Plan(
        boot=session.new_id("boot"),
        line=chosen.line,
        recipe=chosen.recipe,
        floors=chosen.floors,
        apply=apply,
        accepted=served.accepted(chosen.line, accept),
        memory=memory_table.foreseen(chosen.recipe, chosen.floors),
    )
    if plan:
        return show_plan(session, ready)
    with (
        hold(chosen.line),
        watching(session.console, session.clock, stages=True, events=events, notify=notify) as watch,
        (teller := Teller(watch=watch, line=chosen.line.name)).work(_began(session, ready)),
    ):
        ansible.end_orphans(chosen.line)
        if resume:
            ready = resumed(session, ready)
        elif not again:
            demand_no_streak(session, chosen.line)
        teller.tell(Booting(boot=ready.boot, number=1, on=(), reason=""))
        ended = boot_and_record(session, ready, teller.boot())
        teller.tell(_ended(ended))
    return _show_boot(session, ready, ended)


def _began(session: Session, plan: Plan) -> Began:
    """Say what begins, and how long it usually takes."""
    boot_s, origin = usual.boot_s(session, plan.line.name, benched=False)
    return Began(
        verb="boot",
        what=f"boot of {plan.recipe.name}",
        simulated=session.simulated,
        pace=session.pace or 1.0,
        expected=1,
        boot_s=boot_s,
        origin=origin,
    )


def _ended(booted: Boot) -> Ended:
    """Say how it ended: what a gate or a node keeps from booting is for the owner to cure."""
    why = ": ".join(filter(None, (booted.node, booted.why)))
    came: Outcome = "done" if booted.ok else "failed" if booted.blames_what_was_booted else "needs-you"
    return Ended(outcome=came, why=why or "ready", hint=booted.hint)


def _show_boot(session: Session, plan: Plan, ended: Boot) -> int:
    console, line = session.console, plan.line
    code = 0 if ended.ok else 3 if ended.unclear else 1
    show_findings(console, ended.findings, everything=False, accepted=plan.accepted)
    for text in ended.log:
        console.say(f"  | {text}")
    for text in (*_memory(ended), *_proven(ended)):
        console.say(text)
    if ended.ok:
        console.show(f"line {line.name} is ready at {line.url} after {duration(ended.seconds)}")
    else:
        console.show(f"line {line.name} did not boot: {ended.stage}, {ended.node}: {ended.why}")
        if ended.hint:
            console.say(f"\nhint: {ended.hint}")
    logs = str(kept.folder(session, ended.boot)) if ended.logs else None
    if logs:
        console.say(f"the end of each rank's log is kept in {logs}; sparkctl logs prints it")
    answer: dict[str, Any] = edge.plain(replace(ended, logs={}))
    told = {"ok": ended.ok, "url": line.url if ended.ok else None, "simulated": session.simulated}
    console.answer({**answer, "logs": logs, **told})
    return code


def _proven(ended: Boot) -> Iterator[str]:
    """Say what the ranks' logs prove: in one line what they agree on, then what differs."""
    alike, unlike = [], []
    for name in sorted({name for values in ended.evidence.values() for name in values}):
        nodes = dict[str, list[str]]()
        for node, values in ended.evidence.items():
            if name in values:
                nodes.setdefault(", ".join(values[name]), []).append(node)
        if len(nodes) == 1:
            alike.append(f"{name} {next(iter(nodes))}")
        else:
            told = "; ".join(f"{text} on {', '.join(names)}" for text, names in nodes.items())
            unlike.append(f"and that they differ in {name}: {told}")
    if alike or unlike:
        yield f"the ranks' logs prove {'; '.join(alike)}"
        yield from unlike
    if ended.pin:
        pin = ended.pin
        yield (
            f"KV cache: ranks offer {pin.least_gib:g} ({pin.node}) to {pin.most_gib:g} GiB; --set memory.kv_cache_gib={pin.gib:g} pins "
            f"every rank to the least less {MARGIN_GIB:g} GiB, so that boots are alike"
        )


def _memory(ended: Boot) -> Iterator[str]:
    """Say what the guard saw while ranks loaded."""
    if ended.lowest:
        told = ", ".join(f"{node} {gib(size)}" for node, size in ended.lowest.items())
        yield f"lowest MemAvailable while it loaded: {told}"
    if ended.flushes:
        told = ", ".join(f"{node} {times(count)}" for node, count in ended.flushes.items())
        yield f"page cache was dropped while it loaded: {told}"
    for text in ended.observed:
        yield f"the guard only observed; enforcing it would have stopped every rank: {text}"
