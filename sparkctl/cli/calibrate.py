"""`sparkctl tune --calibrate`: boots of the base alone, benched twice each, so that the ledger knows how noisy the line is."""

from launcher import plan as plans
from ledger import calibrations
from ledger.journal import Journal
from ledger.retractions import live
from sparkctl import ansible, edge
from sparkctl.cli import course
from sparkctl.cli.hold import hold
from sparkctl.cli.recorded import read
from sparkctl.cli.recorded_boot import boot_and_record, plan_of, stage_teller
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.console import Column
from sparkctl.errors import Refused, Unclear
from tuner import trial as trials
from tuner.noise import LEAST_BOOTS, Noise
from tuner.outlook import BOOT_MINUTES
from tuner.steps import Trial
from tuner.workload import Workload, quantities

BOOTS = 6
PASSES = 2
"""Boots and passes of a calibration. Ours: with six boots a scatter is known within a factor of 0.6 to 2.5 (95 %, chi-square
with five degrees of freedom), which moves the planned runs and no verdict; two passes tell the part within a boot."""


def run(session: Session, chosen: Served, workload: Workload, *, boots: int | None, plan: bool) -> int:
    """Calibrate, and show what the ledger knows of the line then. Exit 0 when it is enough to plan with, else 4."""
    count = boots or BOOTS
    if not plan:
        with hold(chosen.line), session.console.work(f"calibrating line {chosen.line.name}"):
            ansible.end_orphans(chosen.line)
            for at in range(count):
                _boot(session, chosen, workload, f"boot {at + 1} of {count}")
    return _show(session, chosen, workload, foreseen=count if plan else 0)


def _boot(session: Session, chosen: Served, workload: Workload, name: str) -> None:
    """Boot the base and bench it; a boot that does not come up ends the calibration, since it is the line's fault."""
    console = session.console
    plan = plan_of(session, chosen, replaces=True)
    booted = boot_and_record(session, plan, stage_teller(console, f"{name}, "))
    if not booted.ok:
        fault = Unclear if booted.unclear else Refused
        raise fault(f"{name} did not come up: {booted.node}: {booted.why}", hint=booted.hint)
    taken = [_bench(session, plan, booted, workload, f"{name}, pass {at + 1}") for at in range(PASSES)]
    voids = [one.why for one in taken if one.outcome != "measured"]
    body = calibrations.write(
        boot=plan.boot,
        grounds=course.grounds(session, chosen, workload),
        passes=[one.metrics for one in taken],
        voids=voids,
        simulated=session.simulated,
    )
    Journal(session.ledger_path).append("calibration", chosen.line.name, body, session.clock.today())
    figures = "  ".join(f"{one.name} {one.value:.1f}" for one in taken[0].metrics)
    console.say(f"{name}  {'void: ' + '; '.join(voids) if voids else figures}")


def _bench(session: Session, plan: plans.Plan, booted: plans.Boot, workload: Workload, name: str) -> Trial:
    watcher = trials.Watcher(
        boot=lambda _: None, bench=lambda text: session.console.progress(f"{name}: {text}")
    )
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
