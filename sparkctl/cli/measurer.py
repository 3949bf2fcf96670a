"""Measurer: one step of a climb on one line: booted, proven armed, benched, asked for its quality where wanted, and written down.

Joins the tuner's steps with the ritual and the ledger; decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from launcher import plan as plans
from ledger import record, replies
from ledger.entry import Body, Kind
from ledger.epochs import changes, fingerprint
from ledger.journal import Journal
from ledger.texts import Texts
from sparkctl.cli import quality_ground as grounds
from sparkctl.cli import quality_run, told_climb
from sparkctl.cli.endpoint import Chosen
from sparkctl.cli.patience import Patience
from sparkctl.cli.recorded import read
from sparkctl.cli.recorded_boot import boot_and_record, plan_of
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.cli.watch import Taker, Teller
from sparkctl.console import Console
from sparkctl.errors import Interrupted, Refused, Unclear
from sparkctl.live.event import Asked, Booting, Warned
from tuner import trial as trials
from tuner.bench import Endpoint
from tuner.climb import Climb
from tuner.lever import Ladder, Lever
from tuner.steps import Boot, On, Trial, name_of
from tuner.workload import Workload, canonical

MOST_UNFIT = 3
"""Boots in a row that a gate may stop before a line pauses its climb, or leaves one of several lines: one may be a flip of the GPU's state. Ours."""


@dataclass(slots=True, kw_only=True)
class Measurer:
    """What boots and measures on a line for a climb. Holds where things are written, decides nothing."""

    session: Session
    served: Served
    ladder: Ladder
    workload: Workload
    climb: str
    watch: Taker
    patience: Patience = field(default_factory=Patience)

    @property
    def teller(self) -> Teller:
        """Who says what happens on the line."""
        return Teller(watch=self.watch, line=self.served.line.name, run=self.climb)

    @property
    def console(self) -> Console:
        """Where it tells what it does."""
        return self.session.console

    @console.setter
    def console(self, console: Console) -> None:
        self.session.console = console

    def measure(self, step: Boot) -> Trial:
        """Boot and bench one step, and write both before anything is decided from them.

        A boot that says nothing of the levers is tried again; after `MOST_UNFIT` in a row the line cannot go on.

        Raises:
            Refused, Unclear: the nodes are not fit to boot, or cannot be asked; tune --resume goes on from here.

        """
        for _ in range(MOST_UNFIT):
            booted, trial = self._try(step)
            if trial:
                return trial
            if self.patience.asked:
                raise Interrupted(
                    f"stopped as asked; the last boot was stopped before the launch, on {booted.node}: {booted.why}",
                    hint="tune --resume goes on with the climb",
                )
        fault = Unclear if booted.unclear else Refused
        raise fault(
            f"{MOST_UNFIT} boots in a row were stopped before the launch, the last on {booted.node}: {booted.why}",
            hint=f"{booted.hint}; the climb pauses until then, and tune --resume goes on with it".removeprefix(
                "; "
            ),
        )

    def _try(self, step: Boot) -> tuple[plans.Boot, Trial | None]:
        """Boot once, and bench when the line got ready."""
        session, teller = self.session, self.teller
        on = self._levers(step.on)
        plan = self._plan(on, replaces=step.number > 1)
        teller.tell(Booting(boot=plan.boot, number=step.number, on=step.on, reason=step.reason))
        watcher = trials.Watcher(boot=teller.boot(), bench=lambda text: teller.doing(f"bench: {text}"))
        booted = boot_and_record(session, plan, watcher.boot, climb=self.climb, on=step.on)
        trial = None if booted.ok else trials.of_boot(booted, step.on)
        if booted.ok:
            self._demand_epoch()
            trial, measured = trials.measure(
                plan, booted, self.workload, on, clock=session.clock, watcher=watcher
            )
            if step.quality and trial.outcome == "measured":
                trial = replace(trial, quality=self._quality(plan, on))
            texts = (*(one.text for one in measured.requests), canonical(self.workload)) if measured else ()
            replies.keep(Texts.beside(session.ledger_path), texts)
            body = record.bench(trial, measured, climb=self.climb, simulated=session.simulated)
            self._append("bench", body)
        teller.tell(told_climb.booted(step, booted, trial, self.ladder))
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

    def _quality(self, plan: plans.Plan, on: Sequence[Lever]) -> str:
        """Ask the quality batteries of what serves now, and return the first that does not pass."""
        for wish in quality_run.of_levers(on, self.ladder.quality):
            said = self._asked(plan, wish)
            if said != "passes":
                return said
        return "passes"

    def _asked(self, plan: plans.Plan, wish: quality_run.Wish) -> str:
        """Ask one battery; where it scores texts and no reference is on record there is nothing to judge them by."""
        name = plan.recipe.model.served_name
        if wish.whole.probe and grounds.ground(self.session, wish.whole).reference(None, name) is None:
            return "nothing, since no reference is on record"
        endpoint = Endpoint(url=plan.line.url, model=name, key_file=plan.line.api_key_file)
        self.teller.doing(f"asking the quality battery {wish.whole.name}")
        chosen = Chosen(endpoint=endpoint, line=plan.line, boot=plan.boot)
        outcome = quality_run.ask_and_record(self.session, chosen, wish).measured.outcome
        self.teller.tell(Asked(verdict=outcome.verdict, why=outcome.why))
        return outcome.verdict

    def serve(self, ended: Climb) -> None:
        """Boot the stack unless it is what serves, or the base itself does not come up."""
        last = ended.trials[-1] if ended.trials else None
        if ended.end == "base" or (last and last.outcome == "measured" and set(last.arm) == set(ended.stack)):
            return
        plan = self._plan(self._levers(ended.stack), replaces=last is not None)
        number, why = len(ended.trials) + 1, "what is proven is to serve"
        self.teller.tell(Booting(boot=plan.boot, number=number, on=ended.stack, reason=why))
        booted = boot_and_record(self.session, plan, self.teller.boot())
        if not booted.ok:
            fault = f"{name_of(ended.stack)} did not come up to serve: {booted.node}: {booted.why}"
            self.teller.tell(Warned(text=fault))

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
