"""`sparkctl quality`: is what a line says still what it said, beyond what a restart changes?"""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ledger.quality import Role
from sparkctl import content, edge
from sparkctl.cli import endpoint as endpoints
from sparkctl.cli import quality_run
from sparkctl.cli.hold import hold
from sparkctl.cli.quality_run import STANDARD, Wish
from sparkctl.cli.quality_shown import show
from sparkctl.cli.session import LineOption, RehearsalOption, ScenarioOption, Session, practise, verb
from sparkctl.errors import UsageFault
from tuner.lever import Ladder
from tuner.quality import battery, evalplus
from tuner.quality.battery import PARTS, Battery
from tuner.quality.evalplus import Problems

_EXITS = {"passes": 0, "kept": 0, "fails": 1, "unasked": 3, "inconclusive": 4}


UrlOption = Annotated[str | None, typer.Option("--url", help="Any endpoint instead of a line.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="The served name, needed with --url.")]
BatteryOption = Annotated[str, typer.Option("--battery", help="A battery by name or path.")]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--reference",
        metavar="N|FILE",
        help="Compare with this row or file; default: the model's newest reference.",
    ),
]
KeepOption = Annotated[bool, typer.Option("--keep", help="Store this run as a reference.")]
FloorOption = Annotated[
    bool,
    typer.Option("--floor", help="The reference's own configuration, restarted: add this run to its floor."),
]
LadderOption = Annotated[
    str | None, typer.Option("--ladder", help="Judge by the bounds that this ladder sets.")
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", help=f"Ask one part; may be given again: {', '.join(PARTS)}."),
]
EvalplusOption = Annotated[
    Path | None,
    typer.Option(
        "--evalplus",
        metavar="FILE",
        help="Also solve the problems of this local HumanEval+ or MBPP+ file; recorded only.",
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write scores and answers here as JSON.")
]


@verb
def quality(
    session: Session,
    line: LineOption = None,
    url: UrlOption = None,
    model: ModelOption = None,
    battery_name: BatteryOption = STANDARD,
    reference: ReferenceOption = None,
    keep: KeepOption = False,
    to_floor: FloorOption = False,
    ladder: LadderOption = None,
    only: OnlyOption = None,
    evalplus_file: EvalplusOption = None,
    output: OutputOption = None,
    rehearsal: RehearsalOption = False,
    scenario: ScenarioOption = None,
) -> int:
    """Ask what a line still can, and how far it lies from a stored reference.

    Exit 0: passes. 1: an answer is wrong too often, or it lies beyond the restart floor. 4: there is no floor yet, or the interval
    lies on both sides of the bound. 3: the endpoint cannot be asked.
    """
    role = _role(keep, to_floor)
    practise(session, rehearsal, scenario)
    whole = edge.read(content.quality(battery_name), Battery)
    bounds = edge.read(content.ladder(ladder), Ladder).quality if ladder else None
    wish = Wish(
        whole=whole,
        asks=_asked(whole, only, role),
        role=role,
        named=reference,
        bounds=bounds,
        output=output,
        problems=_problems(evalplus_file),
    )
    chosen = endpoints.choose(session, line, url, model)
    held = hold(chosen.line) if chosen.line else nullcontext()
    with held, session.console.work(f"asking {chosen.endpoint.url}"):
        shown = quality_run.ask_and_record(session, chosen, wish)
    show(session, shown)
    return _EXITS[shown.measured.outcome.verdict]


def _role(keep: bool, to_floor: bool) -> Role:
    if keep and to_floor:
        raise UsageFault(
            "--keep and --floor exclude each other", hint="a reference comes first, then its floor"
        )
    return "reference" if keep else "floor" if to_floor else "run"


def _asked(whole: Battery, only: list[str] | None, role: Role) -> Battery:
    """Return what is asked of a battery; a run that is stored needs the probe that gives scores."""
    asks = _part_of(whole, only)
    if role != "run" and asks.probe is None:
        raise UsageFault(
            "--keep and --floor store scores, and the probe that gives them is not among what is asked",
            hint="add --only probe, or leave --only out"
            if whole.probe
            else f"battery {whole.name} needs neither; the battery standard has a probe",
        )
    return asks


def _problems(path: Path | None) -> Problems | None:
    """Read the problems of --evalplus, and see that the package is there before anything is asked."""
    if path is None:
        return None
    problems = evalplus.read(path)
    evalplus.version()
    return problems


def _part_of(whole: Battery, only: list[str] | None) -> Battery:
    """Return what is asked of a battery: all of it, or the named parts."""
    if not only:
        return whole
    if odd := sorted(set(only) - set(PARTS)):
        raise UsageFault(f"--only {odd[0]}: no such part", hint=f"the parts are {', '.join(PARTS)}")
    chosen = [part for part in PARTS if part in only]
    try:
        return battery.only(whole, chosen)
    except ValueError as fault:
        raise UsageFault(
            f"battery {whole.name} has no part {' or '.join(chosen)}",
            hint=f"its parts are {', '.join(battery.parts(whole))}",
        ) from fault
