"""Quality run: a battery asked of what serves, judged against a reference and its floor, and written as a row of the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.entry import Body
from ledger.journal import Journal
from ledger.quality import Measured, Role, record
from sparkctl import content, edge
from sparkctl.cli import quality_ground as grounds
from sparkctl.cli.endpoint import Chosen
from sparkctl.cli.quality_ground import Ground, Reference
from sparkctl.cli.quality_judged import UNSCORED, Judged, judge
from sparkctl.cli.quality_shown import Shown
from sparkctl.cli.session import Session
from sparkctl.errors import FileFault
from tuner.lever import Bounds, Lever
from tuner.quality import asking, evalplus, logprobs, outcome, tasks
from tuner.quality.asked import Asked
from tuner.quality.battery import Battery
from tuner.quality.evalplus import Problems
from tuner.quality.floor import Run
from tuner.quality.outcome import Score

STANDARD = "standard"
"""The battery that is asked where none is named."""


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


def of_levers(on: Sequence[Lever], bounds: Bounds | None) -> tuple[Wish, ...]:
    """Return what a climb asks of levers or a stack: each battery that one of them names, or the standard one, whole and compared."""
    names = dict.fromkeys(name for lever in on for name in lever.batteries) or {STANDARD: None}
    return tuple(_whole(edge.read(content.quality(name), Battery), bounds) for name in names)


def _whole(battery: Battery, bounds: Bounds | None) -> Wish:
    return Wish(
        whole=battery, asks=battery, role="run", named=None, bounds=bounds, output=None, problems=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    """What was asked under which name and when, what came back, and who answered."""

    name: str
    started: str
    seconds: float
    asked: Asked
    score: Score | None
    fingerprint: Body


def ask_and_record(session: Session, chosen: Chosen, wish: Wish) -> Shown:
    """Ask, judge, and write the row; a line is held by the caller."""
    known = grounds.ground(session, wish.whole)
    reference = known.reference(wish.named, chosen.endpoint.model)
    asked_of = grounds.fingerprint(session, chosen.boot, chosen.endpoint.url)
    if wish.role == "floor":
        # Before anything is asked too: a whole battery takes minutes.
        known.demand_repeat(reference, grounds.read_fingerprint(asked_of))
    heard = _heard(session, chosen, wish, asked_of)
    if wish.role == "floor":
        known.demand_repeat(reference, grounds.read_fingerprint(heard.fingerprint))
    judged = _judged(known, reference, wish, heard)
    measured = Measured(
        model=chosen.endpoint.model,
        battery=wish.whole,
        asked=heard.asked,
        outcome=outcome.outcome(wish.asks, heard.asked, judged.grade, wish.bounds),
        distances=judged.distances,
        started=heard.started,
        seconds=heard.seconds,
    )
    scores = logprobs.pack(heard.asked.scored) if judged.whole else b""
    replies = tasks.replies(heard.asked.tasks, heard.asked.said)
    body = record(
        measured,
        quality=heard.name,
        role=wish.role if judged.whole else "run",
        fingerprint=heard.fingerprint,
        scores=known.store.put(scores) if scores else None,
        replies=known.store.put(replies),
        reference=judged.reference.hash if judged.reference else None,
        evalplus=heard.score,
        simulated=session.simulated,
    )
    line = chosen.line.name if chosen.line else ""
    row = Journal(session.ledger_path).append("quality", line, body, session.clock.today())
    if wish.output:
        _write(wish.output, body, scores, replies)
    return Shown(row=row, measured=measured, judged=judged, role=wish.role, score=heard.score)


def _heard(session: Session, chosen: Chosen, wish: Wish, asked_of: Body) -> _Heard:
    """Ask the battery, and the problems of EvalPlus where they are wanted; the server's word joins what is known of the boot."""
    name, started, began = session.new_id("quality"), session.clock.today(), session.clock.monotonic_s()
    asked = asking.ask(
        chosen.endpoint, wish.asks, run_tag=name, clock=session.clock, report=session.console.progress
    )
    score = _solved(session, chosen, wish)
    return _Heard(
        name=name,
        started=started,
        seconds=session.clock.monotonic_s() - began,
        asked=asked,
        score=score,
        fingerprint={
            **asked_of,
            "engine_version": asked.server.version,
            "engine_started": asked.server.started,
        },
    )


def _judged(known: Ground, reference: Reference | None, wish: Wish, heard: _Heard) -> Judged:
    if heard.asked.unscored or not heard.asked.scored:
        return UNSCORED
    by = grounds.read_fingerprint(heard.fingerprint)
    run = Run(boot=by.identity or heard.name, scored=heard.asked.scored)
    return judge(known, reference, by, wish.role, run, wish.bounds)


def _solved(session: Session, chosen: Chosen, wish: Wish) -> Score | None:
    if wish.problems is None:
        return None
    asked = evalplus.tasks(wish.problems)
    said = asking.answer(
        chosen.endpoint, wish.whole, asked, clock=session.clock, report=session.console.progress
    )
    session.console.progress("evalplus judges the answers")
    return evalplus.judge(wish.problems, said)


def _write(path: Path, body: Body, scores: bytes, replies: bytes) -> None:
    try:
        path.write_text(edge.to_json(grounds.document(body, scores, replies)), encoding="utf-8")
    except OSError as fault:
        raise FileFault(f"{path}: cannot be written: {fault}", hint="name another file with -o") from fault
