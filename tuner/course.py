"""Course of a climb: its design and rule, fixed before its first boot; and where it stands after the boots so far."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from tuner import ladder as one_at_a_time
from tuner import seed_climb
from tuner.factorial import replay as factorial
from tuner.factorial.plan import Plan
from tuner.factorial.pooled import LINES
from tuner.factorial.progress import start
from tuner.lever import Ladder
from tuner.steps import Standing, Trial

Design = Literal["factorial", "ladder"]
Rule = Literal["proof", "seed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How a climb goes: in factorial blocks or one lever at a time, by proof or by the rule of the seeds' ladder.

    `plan` is that of the factorial design and None for the others; `seed` is what its orders are drawn from. `lines` are those of a
    climb over several, in blocks; empty for a climb on one.
    """

    design: Design
    rule: Rule
    seed: int
    plan: Plan | None
    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no course.

        Raises:
            ValueError: the seeds' rule in blocks, blocks without a plan, or several lines without blocks.

        """
        if self.design == "factorial" and self.rule == "seed":
            raise ValueError(
                "the seeds' rule takes one boot of one lever after the other, wanted the design ladder"
            )
        if (self.design == "factorial") != (self.plan is not None):
            raise ValueError(
                f"design {self.design} with plan {self.plan}, wanted a plan for factorial and none else"
            )
        if self.lines and (self.plan is None or self.plan.arming != "blocks" or len(self.lines) != LINES):
            raise ValueError(f"lines {', '.join(self.lines)}, wanted {LINES} that climb in blocks, or none")
        if sorted(self.lines) != list(self.lines):
            raise ValueError(f"lines {', '.join(self.lines)}, wanted them in the order of their names")


def standing(course: Course, ladder: Ladder, history: tuple[Trial, ...]) -> Standing:
    """Return where a climb stands after these boots, in order."""
    if course.plan is not None:
        return factorial.standing_of(factorial.replay(ladder, course.plan, course.seed, history))
    return (
        seed_climb.replay(ladder, history) if course.rule == "seed" else one_at_a_time.replay(ladder, history)
    )


def follow(course: Course, ladder: Ladder) -> Callable[[tuple[Trial, ...]], Standing]:
    """Return what tells a climb where it stands as its history grows: as `standing` does, without going over it all each time."""
    if course.plan is None:
        return lambda history: standing(course, ladder, history)
    fresh = progress = start(ladder, course.plan, course.seed)
    past: tuple[Trial, ...] = ()

    def told(history: tuple[Trial, ...]) -> Standing:
        nonlocal past, progress
        if history[: len(past)] != past:
            past, progress = (), fresh
        progress = reduce(factorial.advance, history[len(past) :], progress)
        past = history
        return factorial.standing_of(progress)

    return told
