"""Logbook: what a climb writes beside its boots: its plan, its verdicts and its end, one row for each of its lines."""

from dataclasses import dataclass, replace

from launcher.recipe import digest
from ledger import absences, record
from ledger.bodies import Plan
from ledger.entry import Body, Kind
from ledger.journal import Journal
from sparkctl.cli import lever_effects
from sparkctl.cli.course import Planned, seed_of
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.errors import UsageFault
from tuner import lever as levers
from tuner import workload as workloads
from tuner.climb import Climb
from tuner.course import Course
from tuner.lever import Ladder
from tuner.steps import Away, Back
from tuner.verdict import Verdict
from tuner.workload import Workload


@dataclass(slots=True, kw_only=True)
class Logbook:
    """Where a climb is written down: `climb` is its id, `lines` are those it climbs on."""

    session: Session
    lines: tuple[Served, ...]
    ladder: Ladder
    workload: Workload
    climb: str

    def begin(self, planned: Planned) -> Course:
        """Write the plan and take a new id; return the course, whose orders are drawn from that id unless a seed was named."""
        session, self.climb = self.session, self.session.new_id("climb")
        course = replace(planned.course, seed=planned.course.seed or seed_of(self.climb))
        for served in self.lines:
            body = record.plan(
                self.ladder,
                climb=self.climb,
                simulated=session.simulated,
                ladder_digest=levers.digest(self.ladder),
                recipe_digest=digest(served.recipe),
                workload_digest=workloads.digest(self.workload),
                course=course,
                noise=planned.noise,
                predicted=lever_effects.of_ladder(served, self.ladder),
                pace=session.pace,
                scenario=session.scenario,
            )
            self._append("plan", served, body)
        return course

    def demand_grounds(self, plan: Plan, served: Served) -> None:
        """Refuse to go on with a climb that began with other files.

        Raises:
            UsageFault: ladder, recipe, workload or practice line are not what they were.

        """
        grounds = (
            ("ladder", plan.ladder_digest, levers.digest(self.ladder)),
            ("recipe", plan.recipe_digest, digest(served.recipe)),
            ("workload", plan.workload_digest, workloads.digest(self.workload)),
            ("scenario", plan.scenario, self.session.scenario),
            ("pace", plan.pace, self.session.pace),
        )
        if changed := [noun for noun, then, now in grounds if then != now]:
            raise UsageFault(
                f"climb {plan.climb} began with another {' and '.join(changed)}; its boots cannot be compared with new ones",
                hint="put things back as they were, or start anew without --resume",
            )

    def judged(self, verdict: Verdict) -> None:
        """Write a verdict."""
        for served in self.lines:
            body = record.judged(verdict, climb=self.climb, simulated=self.session.simulated)
            self._append("verdict", served, body)

    def absent(self, event: Away | Back) -> None:
        """Write that a line left the climb or came back."""
        served = next(one for one in self.lines if one.line.name == event.line)
        body = absences.write(event, climb=self.climb, simulated=self.session.simulated)
        self._append("note", served, body)

    def end(self, served: Served, ended: Climb) -> None:
        """Write that the climb is over, as one line saw it."""
        body = record.ended(ended, climb=self.climb, simulated=self.session.simulated)
        self._append("note", served, body)

    def _append(self, kind: Kind, served: Served, body: Body) -> None:
        Journal(self.session.ledger_path).append(kind, served.line.name, body, self.session.clock.today())
