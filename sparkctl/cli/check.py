"""`sparkctl check`: probe every node, judge, print. Changes nothing."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from bootcheck import collect, findings, gates
from bootcheck.facts import Bundle
from bootcheck.findings import Finding
from bootcheck.floors import Floors
from bootcheck.gates.gate import Scene
from bootcheck.probes import table as probes
from launcher import survey
from sparkctl import ansible, edge
from sparkctl.cli import memory_table, served
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
from sparkctl.errors import FileFault, Refused, UsageFault


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
    given: dict[str, object] = {"--line": line, "--recipe": recipe, "--set": set_, "--scenario": scenario}
    given |= {"--rehearsal": rehearsal, "--quick": quick, "--hash-model": hash_model}
    others = [name for name, value in given.items() if value]
    if list_probes:
        _demand_alone("--list-probes", "it asks no node", [*others, *(["--replay"] if replay else [])])
        return _list_probes(session)
    if replay:
        _demand_alone("--replay", "a bundle brings its own line, recipe and floors", others)
        return _replay(session, replay)
    practise(session, rehearsal, scenario)
    chosen = served.choose(session, line, recipe, set_)
    bundle = look(session, chosen, quick=quick, hash_model=hash_model)
    accepted = served.accepted(chosen.line, None)
    return show_scene(session, survey.scene(bundle), accepted, frozenset(bundle.context.left_out))


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
        context = survey.context(
            line,
            chosen.recipe,
            chosen.floors,
            session.clock.today(),
            frozenset(left_out),
            memory_table.foreseen(chosen.recipe, chosen.floors),
        )
        with console.work(f"probing {len(line.nodes)} nodes of line {line.name}"):
            return collect.collect(context, lambda answer: console.progress(ansible.describe(answer)))


def _demand_alone(option: str, why: str, others: list[str]) -> None:
    if others:
        raise UsageFault(f"{option} is given with {', '.join(others)}; {why}", hint="leave them out")


def _replay(session: Session, path: Path) -> int:
    """Judge what a bundle holds; what this sparkctl knows no probe for is named, since no gate reads it."""
    try:
        found = edge.read(path, Bundle)
    except FileFault as fault:
        fault.hint = (
            "wanted a whole bundle as sparkctl bundle writes it; one of a newer sparkctl wants that sparkctl"
        )
        raise
    context = found.context
    session.simulated = context.line.is_practice
    label = " on a practice line: everything in it is simulated" if session.simulated else ""
    session.console.say(f"judging {path}{label}, taken {context.at} by sparkctl {context.version}")
    strange = sorted(
        {one.probe for node in found.nodes.values() for one in node.probes}
        - {one.name for one in probes.PROBES}
    )
    if strange:
        session.console.warn(
            f"this sparkctl knows no probe {', '.join(strange)}: what they say is not judged"
        )
    return show_scene(session, survey.scene(found), left_out=frozenset(context.left_out))


def show_scene(
    session: Session,
    scene: Scene,
    accepted: frozenset[str] = frozenset(),
    left_out: frozenset[str] = frozenset(),
) -> int:
    """Judge what was found on a line, print every finding, and return the exit code; `accepted` gates only warn.

    Probes that were `left_out` are named, save those that run on request only.
    """
    found = gates.judge(scene)
    code = findings.exit_code(one for one in found if one.gate not in accepted)
    show_findings(session.console, found, everything=True, accepted=accepted)
    boots = not gates.blocking(found, scene, settled=False, accepted=accepted)
    missing = sorted(left_out - probes.requested())
    if missing:
        session.console.say(f"\nnot probed, and so not judged: {', '.join(missing)}")
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


def show_findings(
    console: Console,
    found: tuple[Finding, ...],
    *,
    everything: bool,
    accepted: frozenset[str] = frozenset(),
) -> None:
    """Print findings as a table, gate by gate, then what is wrong in full; without `everything` only the latter.

    Nodes of which a gate says the same share a row; what was wanted of those that pass is told under `--verbose`.
    Of a failure that the owner has `accepted` that is said.
    """
    if everything:
        folded = ("nodes", "measured", "wanted") if console.verbose else ("nodes", "measured")
        columns = (
            *(Column(title=one) for one in ("gate", "verdict")),
            *(Column(title=one, fold=True) for one in folded),
        )
        console.table(columns, [row[: len(columns)] for row in _rows(found)])
    for text in _troubles(found, accepted):
        console.say(text)


def _troubles(found: tuple[Finding, ...], accepted: frozenset[str]) -> Iterator[str]:
    """Tell what is wrong in full; nodes of which a gate wants the same, for the same reason, share a paragraph."""
    shared: dict[tuple[str, ...], list[Finding]] = {}
    for one in found:
        if one.verdict != "pass":
            shared.setdefault((one.gate, one.verdict, one.wanted, one.origin, one.hint), []).append(one)
    for (gate, verdict, wanted, origin, hint), nodes in shared.items():
        mark = " (accepted)" if gate in accepted and verdict in {"fail", "unknown"} else ""
        seen = f"{nodes[0].node}, {gate}: {nodes[0].measured}"
        if len(nodes) > 1:
            seen = "\n".join(
                (f"{gate} on {len(nodes)} nodes", *(f"  {one.node}: {one.measured}" for one in nodes))
            )
        yield f"\n{verdict}{mark}: {seen}\nwanted: {wanted}\norigin: {origin}\nhint: {hint}"


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
        return f"\nline {line} may boot if settling cures that: a boot stops the line, drops page cache and judges again ({told})"
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
        [(row["probe"], row["about"], _shortened(row["argv"])) for row in rows],
    )
    session.console.say("\na script is shown by its first line; --json has every command whole")
    session.console.answer({"probes": rows})
    return 0


def _shortened(argv: list[str]) -> str:
    """Return a command as one line; of a word that is a script, its first line."""
    lines = ((word, word.strip().splitlines() or [word]) for word in argv)
    return " ".join(first[0] if len(first) == 1 else f"'{first[0]} ...'" for _, first in lines)
