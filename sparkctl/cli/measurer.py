"""Measurer: one step of a climb on one line: booted, proven armed, benched, asked for its quality where wanted, and written down.

Joins the tuner's steps with the ritual and the ledger; decides nothing.
"""

from dataclasses import dataclass, replace

from launcher import plan as plans
from ledger import record, replies
from ledger.entry import Body, Kind
from ledger.epochs import changes, fingerprint
from ledger.journal import Journal
from ledger.texts import Texts
from sparkctl.cli import quality
from sparkctl.cli import quality_ground as grounds
from sparkctl.cli.endpoint import Chosen
from sparkctl.cli.recorded import read
from sparkctl.cli.recorded_boot import boot_and_record, plan_of, stage_teller
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.console import Console
from sparkctl.errors import Refused, Unclear
from sparkctl.units import duration
from tuner import trial as trials
from tuner.bench import Endpoint
from tuner.climb import Climb
from tuner.lever import Ladder, Lever
from tuner.steps import Boot, On, Trial, name_of
from tuner.workload import Workload, canonical

MOST_UNFIT = 3
"""Boots in a row that a gate may stop before a climb pauses: one may be a flip of the GPU's state. Ours."""


@dataclass(slots=True, kw_only=True)
class Measurer:
    """What boots and measures on a line for a climb. Holds where things are written, decides nothing."""

    session: Session
    served: Served
    ladder: Ladder
    workload: Workload
    climb: str

    @property
    def console(self) -> Console:
        """Where it tells what it does."""
        return self.session.console

    @console.setter
    def console(self, console: Console) -> None:
        self.session.console = console

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
        own = [
            row.n
            for row in rows
            if row.kind == "boot" and row.line == self.served.line.name and _is_up(row.body, self.climb)
        ]
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
