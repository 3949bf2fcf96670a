"""`sparkctl check`: probe every node, judge, print. Changes nothing."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from bootcheck import collect, findings, gates, probes
from bootcheck.facts import Bundle
from bootcheck.findings import Finding
from bootcheck.floors import Floors
from bootcheck.gates.gate import Scene
from launcher import boot as ritual
from sparkctl import ansible, edge
from sparkctl.cli import served
from sparkctl.cli.hold import hold
from sparkctl.cli.served import Served
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
from sparkctl.errors import Refused, UsageFault


@verb
def check(
    session: Session,
    line: LineOption = None,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Leave out what loads GPU and fabric; their gates say nothing then."),
    ] = False,
    hash_model: Annotated[
        bool,
        typer.Option("--hash-model", help="Hash every model file on every node too, which takes minutes."),
    ] = False,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", help="Judge this bundle instead of any node; needs no inventory."),
    ] = None,
    list_probes: Annotated[
        bool, typer.Option("--list-probes", help="Print every probe and its command.")
    ] = False,
) -> int:
    """Probe every node and judge it; changes nothing."""
    if list_probes:
        return _list_probes(session)
    if replay:
        given: dict[str, object] = {"--line": line, "--recipe": recipe, "--set": set_, "--scenario": scenario}
        given |= {"--rehearsal": rehearsal, "--quick": quick, "--hash-model": hash_model}
        _demand_alone([name for name, value in given.items() if value])
        found = edge.read(replay, Bundle)
        session.simulated = found.context.line.is_practice
        label = " on a practice line: everything in it is simulated" if session.simulated else ""
        session.console.say(
            f"judging {replay}{label}, taken {found.context.at} by sparkctl {found.context.version}"
        )
        return show_scene(session, ritual.scene(found))
    practise(session, rehearsal, scenario)
    chosen = served.choose(session, line, recipe, set_)
    bundle = look(session, chosen, quick=quick, hash_model=hash_model)
    return show_scene(session, ritual.scene(bundle), served.accepted(chosen.line, None))


def look(session: Session, chosen: Served, *, quick: bool, hash_model: bool = False) -> Bundle:
    """Probe every node of a line once.

    What loads GPU and fabric runs only for who holds the line: two that measure at once halve each other's figures.
    """
    console, line = session.console, chosen.line
    on_request = frozenset[str]() if hash_model else probes.requested()
    with ExitStack() as stack:
        if not quick:
            try:
                stack.enter_context(hold(line))
            except Refused as busy:
                console.warn(f"{busy.message}: what loads GPU and fabric is left out, and not judged")
                quick = True
        left_out = on_request | (probes.loading() - probes.requested() if quick else frozenset())
        context = ritual.context(
            line, chosen.recipe, chosen.floors, session.clock.today(), frozenset(left_out)
        )
        with console.work(f"probing {len(line.nodes)} nodes of line {line.name}"):
            return collect.collect(context, lambda answer: console.progress(ansible.describe(answer)))


def _demand_alone(others: list[str]) -> None:
    if others:
        raise UsageFault(
            f"--replay is given with {', '.join(others)}; a bundle brings its own line, recipe and floors",
            hint="leave them out",
        )


def show_scene(session: Session, scene: Scene, accepted: frozenset[str] = frozenset()) -> int:
    """Judge what was found on a line, print every finding, and return the exit code; `accepted` gates only warn."""
    found = gates.judge(scene)
    code = findings.exit_code(one for one in found if one.gate not in accepted)
    show_findings(session.console, found, everything=True)
    boots = not gates.blocking(found, scene, settled=False, accepted=accepted)
    session.console.say(_summary(scene.line.name, found, accepted, boots=boots))
    session.console.answer(
        {
            "line": scene.line.name,
            "ok": code == 0,
            "findings": edge.plain(found),
            "simulated": session.simulated,
        }
    )
    return code


def show_findings(console: Console, found: tuple[Finding, ...], *, everything: bool) -> None:
    """Print findings as a table, gate by gate, then what is wrong in full; without `everything` only the latter.

    Nodes of which a gate says the same share a row; what was wanted of those that pass is told under `--verbose`.
    """
    if everything:
        folded = ("nodes", "measured", "wanted") if console.verbose else ("nodes", "measured")
        columns = (
            *(Column(title=one) for one in ("gate", "verdict")),
            *(Column(title=one, fold=True) for one in folded),
        )
        console.table(columns, [row[: len(columns)] for row in _rows(found)])
    for one in found:
        if one.verdict != "pass":
            console.say(
                f"\n{one.verdict}: {one.node}, {one.gate}: {one.measured}\n"
                f"wanted: {one.wanted}\norigin: {one.origin}\nhint: {one.hint}"
            )


def _rows(found: tuple[Finding, ...]) -> list[tuple[str, ...]]:
    shared: dict[tuple[str, str, str, str], list[str]] = {}
    for one in found:
        shared.setdefault((one.gate, one.verdict, one.measured, one.wanted), []).append(one.node)
    everywhere = len({one.node for one in found})
    return [
        (
            gate,
            verdict,
            f"all {everywhere}" if len(nodes) == everywhere > 1 else ", ".join(nodes),
            measured,
            wanted,
        )
        for (gate, verdict, measured, wanted), nodes in shared.items()
    ]


def _summary(line: str, found: tuple[Finding, ...], accepted: frozenset[str], *, boots: bool) -> str:
    counts = {
        verdict: sum(one.verdict == verdict for one in found)
        for verdict in ("pass", "warn", "fail", "unknown")
    }
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    worst = findings.worst(one for one in found if one.gate not in accepted)
    if boots and worst in {"fail", "unknown"}:
        return f"\nline {line} must first be settled, as a boot does: it stops the line and drops page cache ({told})"
    said = {
        "pass": "may boot",
        "warn": "may boot; read the warnings",
        "fail": "must not boot",
        "unknown": "cannot be judged",
    }[worst]
    return f"\nline {line} {said} ({told})"


def _list_probes(session: Session) -> int:
    commands = collect.examples(Floors())
    rows: list[Any] = [{"probe": name, "about": about, "argv": list(argv)} for name, about, argv in commands]
    session.console.table(
        (Column(title="probe"), Column(title="about", fold=True), Column(title="command", fold=True)),
        [(row["probe"], row["about"], " ".join(row["argv"])) for row in rows],
    )
    session.console.answer({"probes": rows})
    return 0
