"""The climb itself: asks its course what comes next, has it booted and measured, and notes everything as it happens.

It knows no ledger, no console and no clock: booting, noting and stopping are what its caller passes in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tuner.course import Course, follow
from tuner.lever import Ladder
from tuner.steps import Boot, Confirmed, Done, On, Standing, Trial
from tuner.verdict import Verdict

Event = Trial | Verdict
"""What is noted: each finished boot and each verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """How far a climb came.

    `end` is `done` when every lever has its verdict, `base` when the stack itself failed and `budget` when the caller
    wanted no further boot; `why` says it in words. `open` names the levers that are inconclusive or not decided. `confirmed` and
    `broken`: see `tuner.steps.Standing`.
    """

    stack: On
    verdicts: tuple[Verdict, ...]
    trials: tuple[Trial, ...]
    open: tuple[str, ...]
    end: Literal["done", "base", "budget"]
    why: str
    confirmed: Confirmed | None
    broken: tuple[tuple[str, str], ...]


def climb(  # noqa: PLR0913 - the last two have defaults and are named by the caller
    ladder: Ladder,
    course: Course,
    history: tuple[Trial, ...],
    measure: Callable[[Boot], Trial],
    record: Callable[[Event], None],
    *,
    told: int = 0,
    enough: Callable[[tuple[Trial, ...]], bool] = lambda _: False,
) -> Climb:
    """Climb until every lever is decided, the base fails, or it is enough.

    Args:
        ladder: what to climb.
        course: by which design and rule.
        history: the boots already on record, in order; empty for a fresh climb.
        measure: boots and measures; whatever goes wrong with a boot is a Trial, what it raises ends the climb.
        record: notes an event at once, so that an interrupt loses at most the boot that was running.
        told: how many verdicts of this climb are already on record and need not be noted again.
        enough: asked before each boot with the boots so far; true ends the climb (a budget of boots or hours).

    """
    trials, standing = history, follow(course, ladder)
    while True:
        now = standing(trials)
        for verdict in now.verdicts[told:]:
            record(verdict)
        told = max(told, len(now.verdicts))
        match now.ahead:
            case Done(base_failed=failed, why=why):
                return _ended(ladder, now, trials, "base" if failed else "done", why)
            case Boot() as step if enough(trials):
                why = f"stopped before boot {step.number}: {step.reason}"
                return _ended(ladder, now, trials, "budget", why)
            case Boot() as step:
                trial = measure(step)
                record(trial)
                trials = (*trials, trial)


def still_open(ladder: Ladder, verdicts: tuple[Verdict, ...]) -> tuple[str, ...]:
    """Return the levers that were neither accepted nor rejected, in the ladder's order."""
    settled = {verdict.lever for verdict in verdicts if verdict.verdict != "inconclusive"}
    return tuple(lever.id for lever in ladder.levers if lever.id not in settled)


def _ended(
    ladder: Ladder, now: Standing, trials: tuple[Trial, ...], end: Literal["done", "base", "budget"], why: str
) -> Climb:
    return Climb(
        stack=now.stack,
        verdicts=now.verdicts,
        trials=trials,
        open=still_open(ladder, now.verdicts),
        end=end,
        why=why,
        confirmed=now.confirmed,
        broken=now.broken,
    )
