"""`sparkctl tune --calibrate`: boots of the base alone, benched twice each, so that the ledger knows how noisy the line is."""

from contextlib import AbstractContextManager

from launcher import plan as plans
from ledger import calibrations
from ledger.journal import Journal
from ledger.retractions import live
from sparkctl import ansible, edge
from sparkctl.cli import course, usual
from sparkctl.cli.hold import hold
from sparkctl.cli.patience import PROMISE, patient
from sparkctl.cli.recorded import read
from sparkctl.cli.recorded_boot import boot_and_record, plan_of
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.cli.watch import Teller, Watch
from sparkctl.console import Column
from sparkctl.errors import Refused, Unclear
from sparkctl.live.event import Began, Booted, Booting, Ended, Stopping
from tuner import trial as trials
from tuner.noise import LEAST_BOOTS, Noise
from tuner.outlook import BOOT_MINUTES
from tuner.steps import Trial
from tuner.workload import Workload, quantities

BOOTS = 6
PASSES = 2
"""Boots and passes of a calibration. Ours: with six boots a scatter is known within a factor of 0.6 to 2.5 (95 %, chi-square
with five degrees of freedom), which moves the planned runs and no verdict; two passes tell the part within a boot."""


def run(
    session: Session,
    chosen: Served,
    workload: Workload,
    *,
    boots: int | None,
    plan: bool,
    watched: AbstractContextManager[Watch],
) -> int:
    """Calibrate, and show what the ledger knows of the line then. Exit 0 when it is enough to plan with, else 4."""
    count = boots or BOOTS
    if not plan:
        with hold(chosen.line), watched as watch:
            ansible.end_orphans(chosen.line)
            _all(session, chosen, workload, count, Teller(watch=watch, line=chosen.line.name))
    return _show(session, chosen, workload, foreseen=count if plan else 0)


def _all(session: Session, chosen: Served, workload: Workload, count: int, teller: Teller) -> None:
    """Boot and bench the base so many times, or until somebody asks to stop."""
    boot_s, origin = usual.boot_s(session, chosen.line.name, benched=True)
    began = Began(
        verb="calibrate",
        what="calibration",
        simulated=session.simulated,
        pace=session.pace or 1.0,
        expected=count,
        most=count,
        boot_s=boot_s,
        origin=origin,
    )
    with patient(lambda: teller.tell(Stopping(promise=PROMISE))) as patience, teller.work(began):
        for number in range(1, count + 1):
            _boot(session, chosen, workload, number, teller)
            if patience.asked and number < count:
                teller.tell(Ended(outcome="stopped", why=f"stopped as asked after {number} of {count} boots"))
                return
        teller.tell(Ended(outcome="done", why=f"{count} boots"))


def _boot(session: Session, chosen: Served, workload: Workload, number: int, teller: Teller) -> None:
    """Boot the base and bench it; a boot that does not come up ends the calibration, since it is the line's fault."""
    plan = plan_of(session, chosen, replaces=True)
    teller.tell(Booting(boot=plan.boot, number=number, on=(), reason="calibration"))
    booted = boot_and_record(session, plan, teller.boot())
    if not booted.ok:
        fault = Unclear if booted.unclear else Refused
        raise fault(f"boot {number} did not come up: {booted.node}: {booted.why}", hint=booted.hint)
    taken = [_bench(session, plan, booted, workload, f"pass {at + 1}", teller) for at in range(PASSES)]
    voids = [one.why for one in taken if one.outcome != "measured"]
    body = calibrations.write(
        boot=plan.boot,
        grounds=course.grounds(session, chosen, workload),
        passes=[one.metrics for one in taken],
        voids=voids,
        simulated=session.simulated,
    )
    Journal(session.ledger_path).append("calibration", chosen.line.name, body, session.clock.today())
    teller.tell(
        Booted(
            boot=plan.boot,
            number=number,
            on=(),
            outcome="void" if voids else "measured",
            why="; ".join(voids),
            figures=tuple((one.name, one.value) for one in taken[0].metrics),
            seconds=booted.seconds,
        )
    )


def _bench(
    session: Session, plan: plans.Plan, booted: plans.Boot, workload: Workload, name: str, teller: Teller
) -> Trial:
    watcher = trials.Watcher(boot=lambda _: None, bench=lambda text: teller.doing(f"{name}: {text}"))
    trial, _ = trials.measure(
        plan, booted, workload, (), clock=session.clock, watcher=watcher, tag=session.new_id("pass")
    )
    return trial


def _show(session: Session, chosen: Served, workload: Workload, *, foreseen: int) -> int:
    rows = live(read(session).rows)
    where = {"line": chosen.line.name, "simulated": session.simulated}
    found = calibrations.noise(
        rows,
        chosen.line.name,
        course.grounds(session, chosen, workload),
        quantities(workload),
        simulated=session.simulated,
    )
    minutes = calibrations.minutes_a_boot(rows, chosen.line.name, simulated=session.simulated) or BOOT_MINUTES
    _table(session, found)
    if foreseen:
        session.console.show(
            f"{foreseen} boots of the base, {PASSES} passes each, about {foreseen * minutes / 60:.1f} h"
        )
    session.console.answer({**where, "noise": edge.plain(found), "minutes_a_boot": round(minutes, 2)})
    return 0 if foreseen or found.boots else 4


def _table(session: Session, found: Noise) -> None:
    source = f"{found.boots} calibration boots" if found.boots else "as others report it"
    label = " (simulated)" if session.simulated and found.boots else ""
    session.console.table(
        tuple(
            Column(title=title)
            for title in ("metric", f"differs between boots{label}", "of that within a boot")
        ),
        [
            (name, f"{scatter:.2%}", f"{found.within[name]:.0%}" if name in found.within else "not known")
            for name, scatter in found.scatter.items()
        ],
    )
    session.console.show(
        f"{source}; correlation of two metrics {found.correlation:.2f}"
        + (
            ""
            if found.boots
            else f"; fewer than {LEAST_BOOTS} calibration boots of this recipe and workload are on record"
        )
    )
