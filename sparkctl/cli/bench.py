"""`sparkctl bench`: measure what a line, or any endpoint, serves right now."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from launcher import glance
from ledger import record, replies
from ledger.journal import Journal
from ledger.texts import Texts
from sparkctl import edge
from sparkctl.cli import workloads
from sparkctl.cli.agents import alone, asked, measure
from sparkctl.cli.endpoint import Chosen, choose
from sparkctl.cli.hold import hold
from sparkctl.cli.session import LineOption, RehearsalOption, ScenarioOption, Session, practise, verb
from sparkctl.console import Column
from sparkctl.errors import FileFault, UsageFault
from sparkctl.line import Line
from sparkctl.shell import Shell
from tuner import bench as runner
from tuner import metrics, voids
from tuner.bench import Look
from tuner.metrics import Category, Metric
from tuner.request import Bench
from tuner.results import v41bench
from tuner.steps import Trial
from tuner.workload import Workload, canonical

Form = Literal["requests", "v41bench"]

_VOID_SHOWN = 300
"""Characters of a void's reason on the screen: a foreign server may answer with a whole page. --json has it all."""


@verb
def bench(
    session: Session,
    line: LineOption = None,
    url: Annotated[str | None, typer.Option("--url", help="Any endpoint instead of a line.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The served name at --url.")] = None,
    prompts: Annotated[
        str, typer.Option("--prompts", help="A workload by name or path, or a prompt file of v41bench.")
    ] = workloads.DEFAULT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the result here as JSON.")
    ] = None,
    form: Annotated[
        Form, typer.Option("--format", help="What -o writes: every request, or the shape of v41bench.")
    ] = "requests",
    agents: Annotated[
        str | None,
        typer.Option("--agents", help="Agents' sessions instead: a workload by name, or a trace."),
    ] = None,
    sessions: Annotated[
        str | None, typer.Option("--sessions", help="Live sessions, level by level; default 1,2,4,8,16,32.")
    ] = None,
    idle_cap: Annotated[
        float | None, typer.Option("--idle-cap", help="No pause of a session is longer; seconds, default 10.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="No call begins after so long into a level.")
    ] = None,
    take: Annotated[int | None, typer.Option("--take", help="Only the file's first sessions.")] = None,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
) -> int:
    """Measure what a line or an endpoint serves now.

    A bench that cannot be trusted is void: it says why and exits 1.
    """
    wanted = None
    if agents is None:
        alone(sessions=sessions, idle_cap=idle_cap, minutes=minutes, take=take)
    elif prompts != workloads.DEFAULT or form != "requests":
        raise UsageFault("--agents goes without --prompts and --format", hint="run one bench after the other")
    else:
        wanted = asked(agents, sessions, idle_cap, minutes, take, output)
    practise(session, rehearsal, scenario)
    if wanted:
        at = choose(session, line, url, model)
        return measure(session, wanted, at.endpoint, at.line, at.boot)
    workload = workloads.read(prompts)
    chosen = choose(session, line, url, model)
    measured = _run(session, chosen, workload)
    reasons = voids.of_bench(measured)
    if chosen.line:
        _record(session, chosen.line, chosen.boot, measured, reasons)
    if output:
        _write(output, measured, form, chosen.endpoint.model)
    return _show(session, chosen.line.name if chosen.line else None, measured, reasons)


def _run(session: Session, chosen: Chosen, workload: Workload) -> Bench:
    with session.console.work(f"measuring {chosen.endpoint.url}"), _watched(chosen.line) as look:
        return runner.run(
            chosen.endpoint,
            workload,
            run_tag=session.new_id("bench"),
            clock=session.clock,
            report=session.console.progress,
            look=look,
        )


def _record(session: Session, line: Line, boot: str, measured: Bench, reasons: tuple[str, ...]) -> None:
    trial = Trial(
        boot=boot,
        arm=(),
        outcome="void" if reasons else "measured",
        why="; ".join(reasons),
        metrics=metrics.measure(measured),
    )
    kept = (*(one.text for one in measured.requests), canonical(measured.workload))
    replies.keep(Texts.beside(session.ledger_path), kept)
    body = record.bench(trial, measured, climb=None, simulated=session.simulated)
    Journal(session.ledger_path).append("bench", line.name, body, session.clock.today())


@contextmanager
def _watched(line: Line | None) -> Iterator[Look]:
    """Hold a line of ours and give what reads its nodes; an endpoint that is none has no nodes to look at."""
    if line is None:
        yield tuple
        return
    with hold(line), Shell(line) as shell:
        yield lambda: glance.read(shell)


def _write(path: Path, measured: Bench, form: Form, model: str) -> None:
    told = (
        v41bench.document(measured, label=path.stem, model=model)
        if form == "v41bench"
        else _requests(measured)
    )
    try:
        path.write_text(edge.to_json(told), encoding="utf-8")
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault}", hint="name another file with -o") from fault


def _requests(measured: Bench) -> dict[str, Any]:
    """Return a bench with every request as plain data; of the prefills' text, most of it, only the hash."""
    plain: dict[str, Any] = edge.plain(measured)
    filler = plain["workload"]["filler"]
    filler["text_sha256"] = hashlib.sha256(filler.pop("text").encode()).hexdigest()
    return plain


def _show(session: Session, line_name: str | None, measured: Bench, reasons: tuple[str, ...]) -> int:
    """Show the figures of a sound bench, and of a void one its reasons and no figure."""
    console = session.console
    figures = () if reasons else metrics.measure(measured)
    kinds = () if reasons else metrics.by_category(measured)
    label = " (simulated)" if session.simulated else ""
    if not reasons:
        console.table(
            tuple(Column(title=title) for title in (f"metric{label}", "value", "unit", "n")),
            [(one.name, _value(one), one.unit, str(one.n)) for one in figures],
        )
        if any(one.aggregate is not None for one in kinds):
            console.table(*_by_category(kinds, label))
    for void in reasons:
        console.show(f"void: {' '.join(void.split())[:_VOID_SHOWN]}")
    console.answer(
        {
            "line": line_name,
            "ok": not reasons,
            "metrics": edge.plain(figures),
            "categories": edge.plain(kinds),
            "acceptance": _acceptance(measured),
            "seconds": round(measured.seconds, 1),
            "workload": measured.workload.name,
            "workload_digest": measured.workload_digest,
            "voids": list(reasons),
            "simulated": session.simulated,
        }
    )
    return 1 if reasons else 0


def _acceptance(measured: Bench) -> dict[str, float]:
    """Return the tokens that a step yielded in each decode cell, where the server tells."""
    told = {cell.name: metrics.acceptance(measured, cell) for cell in measured.workload.cells if cell.prompts}
    return {name: round(value, 3) for name, value in told.items() if value is not None}


def _value(metric: Metric) -> str:
    return f"{metric.value:.{3 if metric.unit == 's' else 1}f}"


def _by_category(kinds: tuple[Category, ...], label: str) -> tuple[tuple[Column, ...], list[tuple[str, ...]]]:
    """Return the table of tok/s per stream: a row a category, a column a cell."""
    cells = tuple(dict.fromkeys(one.cell for one in kinds))
    by_place = {(one.category, one.cell): f"{one.per_stream:.1f}" for one in kinds}
    rows = [
        (category, *(by_place.get((category, cell), "") for cell in cells))
        for category in dict.fromkeys(one.category for one in kinds)
    ]
    return tuple(Column(title=title) for title in (f"tok/s per stream{label}", *cells)), rows
