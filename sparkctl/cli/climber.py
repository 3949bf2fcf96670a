"""Climber: what a climb asks of the world, and where it writes: boots, benches, verdicts and the end.

Joins the tuner's steps with the ritual and the ledger; decides nothing.
"""

from dataclasses import dataclass, replace

from launcher import plan as plans
from launcher.recipe import digest
from ledger import record, replies
from ledger.bodies import Plan as PlanBody
from ledger.entry import Body, Kind
from ledger.epochs import changes, fingerprint
from ledger.history import Climb as PastClimb
from ledger.history import last_climb, told
from ledger.journal import Journal
from ledger.texts import Texts
from sparkctl.cli import lever_effects, quality
from sparkctl.cli import quality_ground as grounds
from sparkctl.cli.course import Planned, seed_of
from sparkctl.cli.endpoint import Chosen
from sparkctl.cli.recorded import read
from sparkctl.cli.recorded_boot import boot_and_record, plan_of, stage_teller
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.errors import Refused, Unclear, UsageFault
from sparkctl.units import duration
from tuner import lever as levers
from tuner import trial as trials
from tuner import workload as workloads
from tuner.bench import Endpoint
from tuner.climb import Climb, Event, climb
from tuner.course import Course, standing
from tuner.lever import Ladder, Lever
from tuner.steps import Boot, On, Trial, name_of
from tuner.verdict import Verdict
from tuner.workload import Workload, canonical

MOST_UNFIT = 3
"""Boots in a row that a gate may stop before a climb pauses: one may be a flip of the GPU's state. Ours."""


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
) -> Climb:
    """Climb to the end, to the limit, or until the base fails; without a plan, from the line's last climb's boots.

    At the end the stack that is proven serves, unless the base itself failed.
    """
    work = Climber(session=session, served=chosen, ladder=rungs, workload=workload, climb="")
    past: PastClimb | None = None
    if planned:
        work.climb, course = work.begin(planned)
    else:
        past = _past(session, work)
        work.climb, course = past.id, past.plan.course
    trials = past.trials if past else ()
    began = session.clock.monotonic_s()
    with session.console.work(f"climbing {rungs.name} on line {chosen.line.name}"):
        ended = climb(
            rungs,
            course,
            trials,
            work.measure,
            work.note,
            told=told(past, standing(course, rungs, trials).verdicts) if past else 0,
            enough=lambda done: limit.is_reached(len(done), session.clock.monotonic_s() - began),
        )
        if not (past and past.ended):
            if ended.end != "budget":
                work.end(ended)
            work.serve(ended)
    return ended


def _past(session: Session, work: "Climber") -> PastClimb:
    """Return the line's last climb, if it is one of the same ladder, recipe and workload."""
    line = work.served.line.name
    past = last_climb(read(session).rows, line, simulated=session.simulated)
    if past is None:
        raise UsageFault(
            f"{session.ledger_path} has no climb of line {line}", hint="start one without --resume"
        )
    changed = [noun for noun, then, now in work.grounds(past.plan) if then != now]
    if changed:
        raise UsageFault(
            f"climb {past.id} began with another {' and '.join(changed)}; its boots cannot be compared with new ones",
            hint="put things back as they were, or start anew without --resume",
        )
    session.console.say(
        f"going on with {past.id}: {len(past.trials)} boots and {len(past.verdicts)} verdicts are kept"
    )
    return past


@dataclass(slots=True, kw_only=True)
class Climber:
    """What the climb asks for: boots and notes. Holds where things are written, decides nothing."""

    session: Session
    served: Served
    ladder: Ladder
    workload: Workload
    climb: str

    def grounds(self, plan: PlanBody) -> tuple[tuple[str, object, object], ...]:
        """Return what a climb rests on: the noun, what it was when the climb began, and what it is now."""
        return (
            ("ladder", plan.ladder_digest, levers.digest(self.ladder)),
            ("recipe", plan.recipe_digest, digest(self.served.recipe)),
            ("workload", plan.workload_digest, workloads.digest(self.workload)),
            ("scenario", plan.scenario, self.session.scenario),
            ("pace", plan.pace, self.session.pace),
        )

    def begin(self, planned: Planned) -> tuple[str, Course]:
        """Write the plan row; return the climb's id and its course, whose orders are drawn from that id unless a seed was named."""
        session, name = self.session, self.session.new_id("climb")
        course = replace(planned.course, seed=planned.course.seed or seed_of(name))
        body = record.plan(
            self.ladder,
            climb=name,
            simulated=session.simulated,
            ladder_digest=levers.digest(self.ladder),
            recipe_digest=digest(self.served.recipe),
            workload_digest=workloads.digest(self.workload),
            course=course,
            noise=planned.noise,
            predicted=lever_effects.of_ladder(self.served, self.ladder),
            pace=session.pace,
            scenario=session.scenario,
        )
        self._append("plan", body)
        return name, course

    def measure(self, step: Boot) -> Trial:
        """Boot and bench one step, and write both before anything is decided from them.

        A boot that says nothing of the levers is tried again; after `MOST_UNFIT` in a row the climb pauses.

        Raises:
            Refused, Unclear: the nodes are not fit to boot, or cannot be asked; tune --resume goes on from here.

        """
        for _ in range(MOST_UNFIT):
            booted, trial = self._try(step)
            if trial:
                return trial
        fault = Unclear if booted.unclear else Refused
        raise fault(
            f"the climb pauses: {MOST_UNFIT} boots in a row were stopped before the launch, the last on "
            f"{booted.node}: {booted.why}",
            hint=f"{booted.hint}; then go on with tune --resume".removeprefix("; "),
        )

    def _try(self, step: Boot) -> tuple[plans.Boot, Trial | None]:
        """Boot once, and bench when the line got ready."""
        session, console = self.session, self.session.console
        console.progress(f"boot {step.number}: {step.reason}")
        on = self._levers(step.on)
        plan = self._plan(on, replaces=step.number > 1)
        watcher = trials.Watcher(
            boot=_quietly(stage_teller(console, f"boot {step.number}, "), console.verbose),
            bench=lambda text: console.progress(f"boot {step.number}, bench: {text}"),
        )
        booted = boot_and_record(session, plan, watcher.boot, climb=self.climb, on=step.on)
        trial = None if booted.ok else trials.of_boot(booted, step.on)
        if booted.ok:
            self._demand_epoch()
            trial, measured = trials.measure(
                plan, booted, self.workload, on, clock=session.clock, watcher=watcher
            )
            if step.quality and trial.outcome == "measured":
                trial = replace(trial, quality=self._quality(plan))
            texts = (*(one.text for one in measured.requests), canonical(self.workload)) if measured else ()
            replies.keep(Texts.beside(session.ledger_path), texts)
            body = record.bench(trial, measured, climb=self.climb, simulated=session.simulated)
            self._append("bench", body)
        console.say(self._boot_line(step, booted, trial))
        return booted, trial

    def _demand_epoch(self) -> None:
        """Refuse to go on where the machines are no longer what they were at the climb's first boot.

        Raises:
            Refused: kernel, driver, image, patches or files of the model changed; boots of two epochs are not compared.

        """
        rows = read(self.session).rows
        own = [row.n for row in rows if row.kind == "boot" and _is_up(row.body, self.climb)]
        whole = Journal(self.session.ledger_path).whole({own[0], own[-1]})
        if changed := changes(fingerprint(whole[0].body), fingerprint(whole[-1].body)):
            raise Refused(
                f"the line changed since climb {self.climb} began: {'; '.join(changed)}",
                hint="its boots cannot be compared with new ones: put things back as they were and go on with tune --resume, or start anew",
            )

    def _quality(self, plan: plans.Plan) -> str:
        """Ask the quality battery of what serves now; without a reference there is nothing to judge it by."""
        wish = quality.of_lever(self.ladder.quality)
        if grounds.ground(self.session, wish.whole).reference(None, plan.recipe.model.served_name) is None:
            return "nothing, since no reference is on record"
        endpoint = Endpoint(
            url=plan.line.url, model=plan.recipe.model.served_name, key_file=plan.line.api_key_file
        )
        self.session.console.progress("asking the quality battery")
        chosen = Chosen(endpoint=endpoint, line=plan.line, boot=plan.boot)
        outcome = quality.ask_and_record(self.session, chosen, wish).measured.outcome
        self.session.console.say(f"quality {outcome.verdict}: {outcome.why}")
        return outcome.verdict

    def serve(self, ended: Climb) -> None:
        """Boot the stack unless it is what serves, or the base itself does not come up."""
        last = ended.trials[-1] if ended.trials else None
        if ended.end == "base" or (last and last.outcome == "measured" and set(last.arm) == set(ended.stack)):
            return
        console = self.session.console
        console.progress(f"booting what is proven: {name_of(ended.stack)}")
        plan = self._plan(self._levers(ended.stack), replaces=last is not None)
        tell = _quietly(stage_teller(console, "the stack, "), console.verbose)
        booted = boot_and_record(self.session, plan, tell)
        if not booted.ok:
            console.warn(f"{name_of(ended.stack)} did not come up to serve: {booted.node}: {booted.why}")

    def note(self, event: Event) -> None:
        """Write a verdict; boots were written when they ended."""
        if isinstance(event, Verdict):
            self._append("verdict", record.judged(event, climb=self.climb, simulated=self.session.simulated))
            self.session.console.say(f"{event.verdict:<12} {event.lever}: {event.why}")

    def end(self, ended: Climb) -> None:
        """Write that the climb is over."""
        self._append("note", record.ended(ended, climb=self.climb, simulated=self.session.simulated))

    def _boot_line(self, step: Boot, booted: plans.Boot, trial: Trial | None) -> str:
        head = f"boot {step.number:>2}  {name_of(step.on)}"
        if trial is None:
            return f"{head}  not started: {booted.node}: {booted.why}"
        judged = (*self.ladder.primary, *(guard.metric for guard in self.ladder.guards))
        figures = "  ".join(f"{one.name} {one.value:.1f}" for one in trial.metrics if one.name in judged)
        said = figures if trial.outcome == "measured" else f"{trial.outcome}: {trial.why}"
        return f"{head}  {said}  ({duration(booted.seconds)} to boot)"

    def _levers(self, names: On) -> tuple[Lever, ...]:
        by_id = {lever.id: lever for lever in self.ladder.levers}
        return tuple(by_id[name] for name in names)

    def _plan(self, on: tuple[Lever, ...], *, replaces: bool) -> plans.Plan:
        chosen = self.served.with_settings({key: value for lever in on for key, value in lever.set.items()})
        return plan_of(self.session, chosen, replaces=replaces, sought=trials.sought(on))

    def _append(self, kind: Kind, body: Body) -> None:
        Journal(self.session.ledger_path).append(
            kind, self.served.line.name, body, self.session.clock.today()
        )


def _is_up(body: Body, climb: str) -> bool:
    return body.get("climb") == climb and body.get("ok") is True


def _quietly(tell: plans.Report, verbose: bool) -> plans.Report:
    """Leave the stages of each boot out unless they were asked for: a climb tells boots and verdicts."""

    def told(progress: plans.Progress) -> None:
        if verbose or progress.state in {"began", "tells", "warns"}:
            tell(progress)

    return told
