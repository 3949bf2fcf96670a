"""`sparkctl bench`: measure what a line, or any endpoint, serves right now."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from launcher.status import observe
from ledger import record
from ledger.journal import Journal
from sparkctl import content, edge
from sparkctl.cli.hold import hold, holder
from sparkctl.cli.session import LineOption, RehearsalOption, ScenarioOption, Session, practise, verb
from sparkctl.console import Column
from sparkctl.errors import FileFault, Refused, UsageFault
from sparkctl.line import Line
from tuner import bench as runner
from tuner import metrics
from tuner.bench import Endpoint
from tuner.ladder import Trial
from tuner.metrics import Metric
from tuner.request import Bench
from tuner.workload import Workload

DEFAULT_WORKLOAD = "quick"

_VOID_SHOWN = 300
"""Characters of a void's reason on the screen: a foreign server may answer with a whole page. --json has it all."""


@verb
def bench(
    session: Session,
    line: LineOption = None,
    url: Annotated[str | None, typer.Option("--url", help="Any endpoint instead of a line.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The served name at --url.")] = None,
    prompts: Annotated[str, typer.Option("--prompts", help="A workload by name or path.")] = DEFAULT_WORKLOAD,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write every request here as JSON.")
    ] = None,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
) -> int:
    """Measure what a line or an endpoint serves now.

    A bench that cannot be trusted is void: it says why and exits 1.
    """
    practise(session, rehearsal, scenario)
    workload = read_workload(prompts)
    endpoint, own, boot = _endpoint(session, line, url, model)
    held = hold(own) if own else nullcontext()
    with held, session.console.work(f"measuring {endpoint.url}"):
        measured = runner.run(
            endpoint,
            workload,
            run_tag=session.new_id("bench"),
            clock=session.clock,
            report=session.console.progress,
        )
    voids, figures = metrics.voids(measured), metrics.measure(measured)
    if own:
        trial = Trial(
            boot=boot, arm=(), outcome="void" if voids else "measured", why="; ".join(voids), metrics=figures
        )
        body = record.bench(trial, measured, climb=None, simulated=session.simulated)
        Journal(session.ledger_path).append("bench", own.name, body, session.clock.today())
    if output:
        _write(output, measured)
    return _show(session, own.name if own else None, figures, voids)


def read_workload(name: str) -> Workload:
    """Read a workload by its name or path."""
    return edge.read(content.prompts(name), Workload)


def _endpoint(
    session: Session, line_name: str | None, url: str | None, model: str | None
) -> tuple[Endpoint, Line | None, str]:
    """Return the endpoint, and the line and its boot when it is a line of ours."""
    if url is not None:
        if model is None or line_name is not None:
            raise UsageFault(
                "--url goes with --model and without --line",
                hint="for example --url http://HOST:8000 --model NAME",
            )
        return Endpoint(url=url, model=model), None, ""
    line = session.line(line_name)
    seen = observe(line, session.clock)
    if seen.state != "serving":
        pid = holder(line)
        hint = seen.hint or "boot it first: sparkctl boot"
        if pid:
            hint = f"wait for sparkctl (pid {pid}), which works on it"
        raise Refused(f"line {line.name} is {seen.state}: {seen.note}", hint=hint)
    own = Endpoint(url=line.url, model=seen.serves[0], key_file=line.api_key_file)
    return own, line, seen.ranks[0].boot


def _write(path: Path, measured: Bench) -> None:
    try:
        path.write_text(edge.to_json(measured), encoding="utf-8")
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault}", hint="name another file with -o") from fault


def _show(
    session: Session, line_name: str | None, figures: tuple[Metric, ...], voids: tuple[str, ...]
) -> int:
    console = session.console
    label = " (simulated)" if session.simulated else ""
    console.table(
        tuple(Column(title=title) for title in (f"metric{label}", "value", "unit", "n")),
        [(one.name, f"{one.value:.{3 if one.unit == 's' else 1}f}", one.unit, str(one.n)) for one in figures],
    )
    for void in voids:
        console.show(f"void: {' '.join(void.split())[:_VOID_SHOWN]}")
    console.answer(
        {
            "line": line_name,
            "ok": not voids,
            "metrics": edge.plain(figures),
            "voids": list(voids),
            "simulated": session.simulated,
        }
    )
    return 1 if voids else 0
