"""`sparkctl quality`: is what a line says still what it said, beyond what a restart changes?"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ledger.entry import Body
from ledger.journal import Journal
from ledger.quality import Measured, Role, record
from sparkctl import content, edge
from sparkctl.cli import endpoint as endpoints
from sparkctl.cli import quality_ground as grounds
from sparkctl.cli.endpoint import Chosen
from sparkctl.cli.hold import hold
from sparkctl.cli.quality_judged import UNSCORED, judge
from sparkctl.cli.quality_shown import Shown, show
from sparkctl.cli.session import LineOption, RehearsalOption, ScenarioOption, Session, practise, verb
from sparkctl.errors import FileFault, UsageFault
from tuner.lever import Bounds, Ladder, Lever
from tuner.quality import asking, battery, evalplus, logprobs, outcome, tasks
from tuner.quality.battery import PARTS, Battery
from tuner.quality.evalplus import Problems
from tuner.quality.floor import Run
from tuner.quality.outcome import Score

DEFAULT_BATTERY = "standard"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for on the command line, read and checked."""

    whole: Battery
    asks: Battery
    role: Role
    named: str | None
    bounds: Bounds | None
    output: Path | None
    problems: Problems | None


@verb
def quality(
    session: Session,
    line: LineOption = None,
    url: UrlOption = None,
    model: ModelOption = None,
    battery_name: BatteryOption = DEFAULT_BATTERY,
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
        shown = ask_and_record(session, chosen, wish)
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


def of_levers(on: Sequence[Lever], bounds: Bounds | None) -> tuple[Wish, ...]:
    """Return what a climb asks of levers or a stack: each battery that one of them names, or the standard one, whole and compared."""
    names = dict.fromkeys(name for lever in on for name in lever.batteries) or {DEFAULT_BATTERY: None}
    return tuple(_whole(edge.read(content.quality(name), Battery), bounds) for name in names)


def _whole(battery: Battery, bounds: Bounds | None) -> Wish:
    return Wish(
        whole=battery, asks=battery, role="run", named=None, bounds=bounds, output=None, problems=None
    )


def ask_and_record(session: Session, chosen: Chosen, wish: Wish) -> Shown:
    """Ask, judge, and write the row; a line is held by the caller."""
    known = grounds.ground(session, wish.whole)
    reference = known.reference(wish.named, chosen.endpoint.model)
    asked_of = grounds.fingerprint(session, chosen.boot, chosen.endpoint.url)
    if wish.role == "floor":
        # Before anything is asked: a whole battery takes minutes.
        known.demand_repeat(reference, grounds.read_fingerprint(asked_of))
    name, started, began = session.new_id("quality"), session.clock.today(), session.clock.monotonic_s()
    asked = asking.ask(
        chosen.endpoint, wish.asks, run_tag=name, clock=session.clock, report=session.console.progress
    )
    score = _solved(session, chosen, wish)
    seconds = session.clock.monotonic_s() - began
    told = {
        **asked_of,
        "engine_version": asked.server.version,
        "engine_started": asked.server.started,
    }
    if wish.role == "floor":
        known.demand_repeat(reference, grounds.read_fingerprint(told))
    run = Run(boot=grounds.read_fingerprint(told).identity or name, scored=asked.scored)
    judged = (
        judge(known, reference, grounds.read_fingerprint(told), wish.role, run, wish.bounds)
        if not asked.unscored and asked.scored
        else UNSCORED
    )
    measured = Measured(
        model=chosen.endpoint.model,
        battery=wish.whole,
        asked=asked,
        outcome=outcome.outcome(wish.asks, asked, judged.grade, wish.bounds),
        distances=judged.distances,
        started=started,
        seconds=seconds,
    )
    scores = logprobs.pack(asked.scored) if judged.whole else b""
    replies = tasks.replies(asked.tasks, asked.said)
    body = record(
        measured,
        quality=name,
        role=wish.role if judged.whole else "run",
        fingerprint=told,
        scores=known.store.put(scores) if scores else None,
        replies=known.store.put(replies),
        reference=judged.reference.hash if judged.reference else None,
        evalplus=score,
        simulated=session.simulated,
    )
    line = chosen.line.name if chosen.line else ""
    row = Journal(session.ledger_path).append("quality", line, body, session.clock.today())
    if wish.output:
        _write(wish.output, body, scores, replies)
    return Shown(row=row, measured=measured, judged=judged, role=wish.role, score=score)


def _problems(path: Path | None) -> Problems | None:
    """Read the problems of --evalplus, and see that the package is there before anything is asked."""
    if path is None:
        return None
    problems = evalplus.read(path)
    evalplus.version()
    return problems


def _solved(session: Session, chosen: Chosen, wish: Wish) -> Score | None:
    if wish.problems is None:
        return None
    asked = evalplus.tasks(wish.problems)
    said = asking.answer(
        chosen.endpoint, wish.whole, asked, clock=session.clock, report=session.console.progress
    )
    session.console.progress("evalplus judges the answers")
    return evalplus.judge(wish.problems, said)


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


def _write(path: Path, body: Body, scores: bytes, replies: bytes) -> None:
    try:
        path.write_text(edge.to_json(grounds.document(body, scores, replies)), encoding="utf-8")
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault}", hint="name another file with -o") from fault
