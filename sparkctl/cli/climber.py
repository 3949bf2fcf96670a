"""Climber: a climb on one line: begun or taken up again, boot by boot to its end, and the proven stack left serving."""

from dataclasses import dataclass

from ledger.history import Climb as PastClimb
from ledger.history import last_climb, told
from sparkctl.cli import told_climb
from sparkctl.cli.course import Planned
from sparkctl.cli.logbook import Logbook
from sparkctl.cli.measurer import Measurer
from sparkctl.cli.patience import PROMISE, patient
from sparkctl.cli.recorded import read
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.cli.watch import Watch
from sparkctl.errors import UsageFault
from sparkctl.live.event import Stopping
from tuner.climb import Climb, Event, climb
from tuner.course import standing
from tuner.lever import Ladder
from tuner.verdict import Verdict
from tuner.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """When a climb stops though levers are open: after so many boots in all, or before a boot that would outlast the time."""

    boots: int | None = None
    hours: float | None = None
    minutes_a_boot: float = 0.0

    def is_reached(self, boots: int, seconds: float) -> bool:
        """Whether no further boot is wanted."""
        late = self.hours is not None and seconds / 60 + self.minutes_a_boot > self.hours * 60
        return late or (self.boots is not None and boots >= self.boots)


def run(
    session: Session,
    chosen: Served,
    rungs: Ladder,
    workload: Workload,
    *,
    planned: Planned | None,
    limit: Limit,
    watch: Watch,
) -> Climb:
    """Climb to the end, to the limit, or until the base fails; without a plan, from the line's last climb's boots.

    At the end the stack that is proven serves, unless the base itself failed.
    """
    log = Logbook(session=session, lines=(chosen,), ladder=rungs, workload=workload, climb="")
    past: PastClimb | None = None
    if planned:
        course = log.begin(planned)
    else:
        past = _past(session, log, chosen)
        log.climb, course = past.id, past.plan.course
    work = Measurer(
        session=session, served=chosen, ladder=rungs, workload=workload, climb=log.climb, watch=watch
    )
    teller = work.teller
    trials = past.trials if past else ()
    began = session.clock.monotonic_s()

    def note(event: Event) -> None:
        if isinstance(event, Verdict):  # boots were written when they ended
            log.judged(event)
            teller.tell(told_climb.judged(event))

    with (
        patient(lambda: teller.tell(Stopping(promise=PROMISE))) as work.patience,
        teller.work(told_climb.began(session, chosen.line, rungs, planned, past, limit.boots)),
    ):
        ended = climb(
            rungs,
            course,
            trials,
            work.measure,
            note,
            told=told(past, standing(course, rungs, trials).verdicts) if past else 0,
            enough=lambda done: (
                work.patience.asked or limit.is_reached(len(done), session.clock.monotonic_s() - began)
            ),
        )
        if not (past and past.ended):
            if ended.end != "budget":
                log.end(chosen, ended)
            if not work.patience.asked:
                work.serve(ended)
        teller.tell(told_climb.ended(ended, asked=work.patience.asked))
    return ended


def _past(session: Session, log: Logbook, chosen: Served) -> PastClimb:
    """Return the line's last climb, if it is one of the same ladder, recipe and workload."""
    line = chosen.line.name
    past = last_climb(read(session).rows, line, simulated=session.simulated)
    if past is None:
        raise UsageFault(
            f"{session.ledger_path} has no climb of line {line}", hint="start one without --resume"
        )
    if lines := past.plan.course.lines:
        named = " ".join(f"--line {one}" for one in lines)
        raise UsageFault(
            f"the last climb of line {line}, {past.id}, is one of lines {' and '.join(lines)} together",
            hint=f"go on with both: sparkctl tune {named} --resume",
        )
    log.demand_grounds(past.plan, chosen)
    session.console.say(
        f"going on with {past.id}: {len(past.trials)} boots and {len(past.verdicts)} verdicts are kept"
    )
    return past
