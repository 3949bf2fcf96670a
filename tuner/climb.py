"""The climb itself: asks the ladder what comes next, has it booted and measured, and notes everything as it happens.

It knows no ledger, no console and no clock: booting, noting and stopping are what its caller passes in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tuner.ladder import Boot, Decided, Done, On, Trial, next_step, replay
from tuner.lever import Ladder
from tuner.verdict import Verdict

Event = Trial | Verdict
"""What is noted: each finished boot and each verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """How far a climb came.

    `end` is `done` when every lever has its verdict, `base` when the stack itself failed and `budget` when the caller
    wanted no further boot; `why` says it in words. `open` names the levers that are inconclusive or not decided.
    """

    stack: On
    verdicts: tuple[Verdict, ...]
    trials: tuple[Trial, ...]
    open: tuple[str, ...]
    end: Literal["done", "base", "budget"]
    why: str


def climb(  # noqa: PLR0913 - the last two have defaults and are named by the caller
    ladder: Ladder,
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
        history: the boots already on record, in order; empty for a fresh climb.
        measure: boots and measures; whatever goes wrong with a boot is a Trial, what it raises ends the climb.
        record: notes an event at once, so that an interrupt loses at most the boot that was running.
        told: how many verdicts of this climb are already on record and need not be noted again.
        enough: asked before each boot with the boots so far; true ends the climb (a budget of boots or hours).

    """
    trials = history
    while True:
        step = next_step(ladder, trials, told)
        match step:
            case Decided():
                record(step.verdict)
                told += 1
            case Done():
                return _ended(ladder, trials, "base" if step.base_failed else "done", step.why)
            case Boot():
                if enough(trials):
                    return _ended(
                        ladder, trials, "budget", f"stopped before boot {step.number}: {step.reason}"
                    )
                trial = measure(step)
                record(trial)
                trials = (*trials, trial)


def _ended(
    ladder: Ladder, trials: tuple[Trial, ...], end: Literal["done", "base", "budget"], why: str
) -> Climb:
    standing = replay(ladder, trials)
    settled = {verdict.lever for verdict in standing.verdicts if verdict.verdict != "inconclusive"}
    return Climb(
        stack=standing.stack,
        verdicts=standing.verdicts,
        trials=trials,
        open=tuple(lever.id for lever in ladder.levers if lever.id not in settled),
        end=end,
        why=why,
    )
