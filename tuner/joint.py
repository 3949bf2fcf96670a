"""The climb over several lines at once: has every line boot what is next there, and notes everything as it happens.

It knows no ledger, no console and no clock, and no process either: who boots, notes and stops is what its caller passes in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from tuner.climb import Climb, still_open
from tuner.course import Course
from tuner.factorial import together
from tuner.factorial.together import Together
from tuner.lever import Ladder
from tuner.steps import Away, Boot, Confirmed, Event, On, Standings, Trial
from tuner.verdict import Verdict

End = Literal["done", "base", "budget", "pause"]


class Crew(Protocol):
    """Whoever boots and measures on each line, all of them at once."""

    def start(self, line: str, step: Boot) -> None:
        """Begin a boot on a line that has none under way."""
        ...

    def wait(self) -> Trial | Away:
        """Return what became of the next boot that is over, on whichever line."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """How far a climb over several lines came: as `tuner.climb.Climb`, with `confirmed` by line; `away` are lines that left it and why.

    It ends with `pause` where the last line that was left could not go on: that is not noted, so it goes on there.
    """

    stack: On
    verdicts: tuple[Verdict, ...]
    trials: tuple[Trial, ...]
    open: tuple[str, ...]
    end: End
    why: str
    confirmed: Mapping[str, Confirmed]
    broken: tuple[tuple[str, str], ...]
    away: Mapping[str, str]

    def on(self, line: str) -> Climb:
        """Return the same as one line sees it: its boots, and what they confirm."""
        return Climb(
            stack=self.stack,
            verdicts=self.verdicts,
            trials=tuple(one for one in self.trials if one.line == line),
            open=self.open,
            end="base"
            if line in self.away or self.end == "base"
            else "done"
            if self.end == "done"
            else "budget",
            why=self.away.get(line, self.why),
            confirmed=self.confirmed.get(line),
            broken=self.broken,
        )


def start(course: Course, ladder: Ladder) -> Together:
    """Return a climb over the lines of a course before its first boots."""
    if course.plan is None:
        raise ValueError("several lines climb in blocks, wanted a plan")
    return together.begin(ladder, course.plan, course.seed, course.lines)


def climb(  # noqa: PLR0913 - the last two have defaults and are named by the caller
    ladder: Ladder,
    course: Course,
    history: tuple[Event, ...],
    crew: Crew,
    record: Callable[[Event | Verdict], None],
    *,
    told: int = 0,
    enough: Callable[[tuple[Trial, ...]], bool] = lambda _: False,
) -> Joint:
    """Climb until every lever is decided, no line is left, or it is enough; boots under way are waited for.

    Args:
        ladder: what to climb.
        course: over which lines, by which plan.
        history: what is already on record, in order; empty for a fresh climb.
        crew: boots and measures on each line; what its `wait` raises ends the climb.
        record: notes an event or a verdict at once.
        told: how many verdicts of this climb are already on record and need not be noted again.
        enough: asked before each boot with the boots so far; true lets no further one begin (a budget of boots or hours).

    """
    state = together.follow(start(course, ladder), history)
    trials = tuple(one for one in history if isinstance(one, Trial))
    going: dict[str, Boot] = {}
    while True:
        now = together.standings(state)
        for verdict in now.verdicts[told:]:
            record(verdict)
        told = max(told, len(now.verdicts))
        if now.done:
            return _ended(ladder, now, trials, "base" if now.done.base_failed else "done", now.done.why)
        ahead = {line: step for line, step in now.ahead.items() if line not in going}
        for line, step in ahead.items():
            if enough((*trials, *_promised(going))):
                break
            crew.start(line, step)
            going[line] = step
        if not going:
            where = ", ".join(f"boot {step.number} of line {line}" for line, step in now.ahead.items())
            return _ended(ladder, now, trials, "budget", f"stopped before {where}")
        event = crew.wait()
        if isinstance(event, Away) and len(now.away) == len(course.lines) - 1:
            return _ended(ladder, now, trials, "pause", f"line {event.line}: {event.why}")
        record(event)
        del going[event.line]
        state = together.advance(state, event)
        trials = (*trials, event) if isinstance(event, Trial) else trials


def _promised(going: Mapping[str, Boot]) -> tuple[Trial, ...]:
    """Stand in for boots under way where a budget counts boots."""
    return tuple(
        Trial(boot="", arm=step.on, outcome="void", why="under way", line=line)
        for line, step in going.items()
    )


def _ended(ladder: Ladder, now: Standings, trials: tuple[Trial, ...], end: End, why: str) -> Joint:
    return Joint(
        stack=now.stack,
        verdicts=now.verdicts,
        trials=trials,
        open=still_open(ladder, now.verdicts),
        end=end,
        why=why,
        confirmed=now.confirmed,
        broken=now.broken,
        away=now.away,
    )
