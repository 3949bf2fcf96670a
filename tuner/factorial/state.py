"""State of a factorial climb: all that follows from ladder, plan, seed and the boots so far. Values only."""

from dataclasses import dataclass
from typing import Literal

from tuner.factorial.bounds import Look
from tuner.factorial.plan import Plan
from tuner.ladder import On, Trial
from tuner.lever import Ladder
from tuner.verdict import Verdict

Phase = Literal["arming", "blocks", "confirming", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a climb is.

    `trials` are the boots as judged (an outlier is void), `queue` the runs that are planned, the next one first, `runs`
    those of the blocks that are behind, lost ones among them, `drawn` the blocks so far, and `fresh` the place in
    `trials` where the confirmation begins.
    """

    ladder: Ladder
    plan: Plan
    seed: int
    phase: Phase
    queue: tuple[On, ...]
    trials: tuple[Trial, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    stack: On = ()
    looks: tuple[Look, ...] = ()
    runs: int = 0
    drawn: int = 0
    block_start: int = 0
    fresh: int = 0
    fault: str = ""

    @property
    def out(self) -> On:
        """Levers with a verdict that are not part of the stack."""
        return tuple(one.lever for one in self.verdicts if one.lever not in self.stack)

    @property
    def open(self) -> On:
        """Levers without a verdict, in the ladder's order."""
        decided = {one.lever for one in self.verdicts}
        return tuple(lever.id for lever in self.ladder.levers if lever.id not in decided)
