"""Told of a climb: its beginning, its boots and its end as the events that are shown of them. Values in, values out, but for the ledger's time a boot."""

import math

from launcher import plan as plans
from ledger.history import Climb as PastClimb
from sparkctl.cli import usual
from sparkctl.cli.course import Planned
from sparkctl.cli.session import Session
from sparkctl.line import Line
from sparkctl.live.event import Began, Booted, Ended, Judged, Outcome
from tuner.climb import Climb
from tuner.lever import Ladder
from tuner.steps import Boot, Trial
from tuner.verdict import Verdict


def began(
    session: Session,
    line: Line,
    ladder: Ladder,
    planned: Planned | None,
    past: PastClimb | None,
    most_boots: int | None,
) -> Began:
    """Say what begins: the ladder, what is on record of it, and how long it will take; of several lines each has its share."""
    outlook = planned.outlook if planned else None
    boot_s, origin = usual.boot_s(session, line.name, benched=True)
    lines = outlook.lines if outlook else 1
    most = [math.ceil(count / lines) for count in (most_boots, outlook.most if outlook else None) if count]
    return Began(
        verb="tune",
        what=f"climb of {ladder.name}",
        simulated=session.simulated,
        pace=session.pace or 1.0,
        levers=tuple(one.id for one in ladder.levers),
        decided=tuple(
            Judged(lever=one.lever, verdict=one.verdict, why=one.why)
            for one in (past.verdicts if past else ())
        ),
        boots=len(past.trials) if past else 0,
        expected=min(math.ceil(outlook.expected / lines), *most) if outlook else 0,
        most=min(most, default=0),
        boot_s=boot_s,
        origin=origin,
    )


def judged(verdict: Verdict) -> Judged:
    """Say that a lever has its verdict."""
    return Judged(lever=verdict.lever, verdict=verdict.verdict, why=verdict.why)


def booted(step: Boot, ended: plans.Boot, trial: Trial | None, ladder: Ladder) -> Booted:
    """Say how a boot came out, with the figures that it is judged by; without a trial it says nothing of the levers."""
    judged = (*ladder.primary, *(guard.metric for guard in ladder.guards))
    figures = [(one.name, one.value) for one in trial.metrics if one.name in judged] if trial else []
    return Booted(
        boot=ended.boot,
        number=step.number,
        on=step.on,
        outcome=trial.outcome if trial else "unfit",
        why=trial.why if trial else f"{ended.node}: {ended.why}",
        figures=tuple(figures),
        seconds=ended.seconds,
    )


def ended(found: Climb, *, asked: bool) -> Ended:
    """Say how a climb ended; `asked` when somebody wanted it to."""
    came: Outcome = "failed" if found.end == "base" else "stopped" if asked else "done"
    hint = "tune --resume goes on with it" if found.end == "budget" else ""
    return Ended(outcome=came, why=found.why, hint=hint, stack=found.stack)
