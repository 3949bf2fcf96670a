"""The course that a climb is given: options of `tune` and what the ledger knows of the line, to design, plan and outlook."""

import hashlib
from dataclasses import dataclass, replace

from launcher.recipe import digest
from ledger import calibrations
from ledger.retractions import live
from sparkctl.cli.recorded import read
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.errors import UsageFault
from tuner import workload as workloads
from tuner.course import Course, Design, Rule
from tuner.factorial.plan import plan
from tuner.lever import Ladder
from tuner.noise import Noise, pooled, variances
from tuner.outlook import BOOT_MINUTES, Outlook, outlook, runs_for
from tuner.workload import Workload, quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for: design and rule where named, the seed of its orders, and the budget in boots or hours."""

    design: Design | None
    rule: Rule
    seed: int | None
    boots: int | None
    hours: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A course, the noise it was planned for, what it will cost, and the boots after which it stops (None: at its own end)."""

    course: Course
    noise: Noise
    outlook: Outlook
    boots: int | None


def grounds(session: Session, chosen: Served, workload: Workload) -> dict[str, object]:
    """Return what figures of boots must share to be compared: the recipe, the workload, and how a practice line runs."""
    return {
        "recipe_digest": digest(chosen.recipe),
        "workload_digest": workloads.digest(workload),
        "scenario": session.scenario,
        "pace": session.pace,
    }


def choose(
    session: Session, lines: tuple[Served, ...], rungs: Ladder, workload: Workload, wish: Wish
) -> Planned:
    """Plan a climb before its first boot: over one line, or over several whose boots run at the same time."""
    rows, simulated = live(read(session).rows), session.simulated
    noises = [
        calibrations.noise(
            rows, one.line.name, grounds(session, one, workload), quantities(workload), simulated=simulated
        )
        for one in lines
    ]
    found = noises[0] if len(noises) == 1 else pooled(noises)
    paces = [calibrations.minutes_a_boot(rows, one.line.name, simulated=simulated) for one in lines]
    minutes = max(pace or BOOT_MINUTES for pace in paces)
    boots = wish.boots if wish.hours is None else max(1, int(wish.hours * 60 * len(lines) / minutes))
    course = _course(rungs, found, wish, boots, tuple(one.line.name for one in lines))
    if len(lines) > 1 and course.plan:
        course = replace(course, plan=replace(course.plan, variances=variances(*noises)))
    return Planned(course=course, noise=found, outlook=outlook(rungs, course, found, minutes), boots=boots)


def seed_of(name: str) -> int:
    """Return the seed that a climb draws from where none is named: by its id, so that it can be drawn again."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])


def _course(rungs: Ladder, found: Noise, wish: Wish, boots: int | None, lines: tuple[str, ...]) -> Course:
    design = wish.design or ("ladder" if wish.rule == "seed" else "factorial")
    if design == "factorial" and wish.rule == "seed":
        raise UsageFault(
            "--rule seed takes one boot of one lever after the other, and --design factorial asks for blocks",
            hint="leave --design out, or name --design ladder",
        )
    if design == "ladder" and len(lines) > 1:
        raise UsageFault(
            f"lines {' and '.join(lines)} climb together in blocks only, and --design ladder or --rule seed asks for one lever at a time",
            hint="leave --design and --rule out, or name one line",
        )
    runs = runs_for(rungs, boots, len(lines)) if boots else None
    planned = plan(rungs, found, runs) if design == "factorial" else None
    together = lines if len(lines) > 1 else ()
    return Course(design=design, rule=wish.rule, seed=wish.seed or 0, plan=planned, lines=together)
