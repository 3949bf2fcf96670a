"""Joint climber: a climb over several lines at once, begun or taken up again, and the proven stack left serving on each of them."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ledger.entry import Row
from ledger.history import Climb as PastClimb
from ledger.history import events, last_climb, told
from sparkctl.cli import told_climb
from sparkctl.cli.climber import Limit
from sparkctl.cli.course import Planned
from sparkctl.cli.crew import Crew
from sparkctl.cli.logbook import Logbook
from sparkctl.cli.measurer import Measurer
from sparkctl.cli.patience import PROMISE, patient
from sparkctl.cli.recorded import read
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.cli.watch import Teller, Unheard, Watch
from sparkctl.errors import UsageFault
from sparkctl.live.event import Stopping, What
from tuner import joint
from tuner.course import Course
from tuner.factorial import together
from tuner.joint import Joint
from tuner.lever import Ladder
from tuner.steps import Away, Back, Event, Trial
from tuner.verdict import Verdict
from tuner.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """What a climb goes on with: nothing for a fresh one."""

    course: Course
    events: tuple[Event, ...] = ()
    told: int = 0
    ended: bool = False


def run(
    session: Session,
    lines: tuple[Served, ...],
    rungs: Ladder,
    workload: Workload,
    *,
    planned: Planned | None,
    limit: Limit,
    watch: Watch,
) -> Joint:
    """Climb to the end, to the limit, or until no line is left; without a plan, from the lines' last climb's boots.

    At the end the stack that is proven serves on every line that is still in the climb.

    Raises:
        SparkctlError: the last line that was left cannot go on; tune --resume goes on from there.

    """
    log = Logbook(session=session, lines=lines, ladder=rungs, workload=workload, climb="")
    past = _Past(course=log.begin(planned)) if planned else _past(session, log)
    began = session.clock.monotonic_s()
    tellers = {one.line.name: Teller(watch=watch, line=one.line.name, run=log.climb) for one in lines}
    with (
        patient(lambda: _tell(tellers, Stopping(promise=PROMISE))) as patience,
        ExitStack() as work,
        Crew(workers=_workers(log), console=session.console, watch=watch) as crew,
    ):
        for served in lines:
            began_there = told_climb.began(session, served.line, rungs, planned, None, limit.boots)
            work.enter_context(tellers[served.line.name].work(began_there))
        ended = joint.climb(
            rungs,
            past.course,
            past.events,
            crew,
            lambda event: _note(log, tellers, event),
            told=past.told,
            enough=lambda done: (
                patience.asked or limit.is_reached(len(done), session.clock.monotonic_s() - began)
            ),
        )
        if not past.ended:
            _end(log, ended, crew, serves=not patience.asked)
        if ended.end == "pause":
            raise next(reversed(crew.faults.values()))
        for name, teller in tellers.items():
            teller.tell(told_climb.ended(ended.on(name), asked=patience.asked))
    return ended


def _workers(log: Logbook) -> dict[str, Measurer]:
    """Return who boots and measures on each line, in a process of its own."""
    return {
        served.line.name: Measurer(
            # What moves on this process's terminal does not travel with a worker.
            session=replace(log.session, console=replace(log.session.console)),
            served=served,
            ladder=log.ladder,
            workload=log.workload,
            climb=log.climb,
            watch=Unheard(log.session.clock),
        )
        for served in log.lines
    }


def _tell(tellers: Mapping[str, Teller], what: What) -> None:
    for teller in tellers.values():
        teller.tell(what)


def _note(log: Logbook, tellers: Mapping[str, Teller], event: Event | Verdict) -> None:
    """Write a verdict, or that a line left; boots were written when they ended."""
    if isinstance(event, Verdict):
        log.judged(event)
        _tell(tellers, told_climb.judged(event))
    elif not isinstance(event, Trial):
        log.absent(event)
        others = " and ".join(one.line.name for one in log.lines if one.line.name != event.line)
        log.session.console.say(
            f"line {others} goes on by the same plan; what is left takes about twice the time, or proves less within a budget"
        )


def _end(log: Logbook, ended: Joint, crew: Crew, *, serves: bool) -> None:
    """Write the end on every line, and leave what is proven serving where the base comes up."""
    if ended.end in {"done", "base"}:
        for served in log.lines:
            log.end(served, ended.on(served.line.name))
    if ended.end != "pause" and serves:
        names = (served.line.name for served in log.lines)
        crew.serve({name: ended.on(name) for name in names if name not in ended.away})


def _past(session: Session, log: Logbook) -> _Past:
    """Return the lines' last climb, if it is one of theirs together and of the same ladder, recipe and workload.

    A line that had left it comes back; one whose base failed does not.
    """
    rows = read(session).rows
    found = {served.line.name: _last(session, rows, served) for served in log.lines}
    first, *others = found.values()
    if any(other.id != first.id for other in others) or set(first.plan.course.lines) != set(found):
        told_of = ", ".join(f"{one.id} of line {name}" for name, one in found.items())
        raise UsageFault(
            f"the last climbs are not one climb of lines {' and '.join(found)} together: {told_of}",
            hint="go on with each line by itself, or start anew without --resume",
        )
    for served in log.lines:
        log.demand_grounds(first.plan, served)
    log.climb, course = first.id, first.plan.course
    happened = events(rows, first.id, simulated=session.simulated)
    state = together.standings(together.follow(joint.start(course, log.ladder), happened))
    is_over = all(one.ended for one in found.values())
    for line in () if is_over else _away(course, happened):
        back = Back(line=line, stage=state.stage + 1)
        log.absent(back)
        happened = (*happened, back)
    boots = sum(isinstance(one, Trial) for one in happened)
    session.console.say(
        f"going on with {first.id}: {boots} boots and {len(first.verdicts)} verdicts are kept"
    )
    known = min(told(one, state.verdicts) for one in found.values())
    return _Past(course=course, events=happened, told=known, ended=is_over)


def _last(session: Session, rows: tuple[Row, ...], served: Served) -> PastClimb:
    past = last_climb(rows, served.line.name, simulated=session.simulated)
    if past is None:
        raise UsageFault(
            f"{session.ledger_path} has no climb of line {served.line.name}",
            hint="start one without --resume",
        )
    return past


def _away(course: Course, happened: tuple[Event, ...]) -> tuple[str, ...]:
    """Return the lines of which the last thing on record is that they left."""
    last = {event.line: event for event in happened}
    return tuple(line for line in course.lines if isinstance(last.get(line), Away))
