"""Steps of a climb, the same for every design: finished boots, the next boot, and the standing they lead to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.metrics import Metric
from tuner.statistics import Comparison
from tuner.verdict import Verdict

On = tuple[str, ...]
"""The ids of the levers that were on: the stack in the order of acceptance, then the lever in question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One finished boot: the levers that were on, how it ended and why, and its metrics if it was measured.

    `quality` is what the last quality run of this configuration amounts to (`passes`, `fails`, ..., or why it could not be asked),
    '' where there was none. `line` is named where a climb has several.
    """

    boot: str
    arm: On
    outcome: Literal["measured", "void", "failed"]
    why: str = ""
    metrics: tuple[Metric, ...] = ()
    quality: str = ""
    line: str = ""

    @property
    def values(self) -> Mapping[str, float]:
        """The metrics' values by name."""
        return {metric.name: metric.value for metric in self.metrics}


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """A line that leaves a climb over several: its nodes are not fit to boot, or cannot be asked."""

    line: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """A line that joins its climb again, from that stage on."""

    line: str
    stage: int


Event = Trial | Away | Back
"""What happens on one of several lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """The next boot: `lever` is the one put to the test (None for a boot of the stack alone), `on` all that are on.

    `number` counts the boots of the climb from 1. With `quality` the quality battery is asked on it as well.
    """

    lever: str | None
    on: On
    number: int
    reason: str
    quality: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """There is nothing left to boot; `base_failed` when the stack itself cannot be booted or measured."""

    base_failed: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """What fresh boots say of the whole stack: `gain` against the base by metric; `worth`, by lever, against the stack without it.

    `quality` is what the quality battery says of it, '' where it was not asked.
    """

    gain: Mapping[str, Comparison]
    worth: Mapping[str, Mapping[str, Comparison]]
    quality: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a climb stands: verdicts so far, the stack of accepted levers, and what comes next.

    `confirmed` is None before the last boot of a confirmation, and for designs that have none. `broken` are pairs of levers that
    come up alone and never together.
    """

    verdicts: tuple[Verdict, ...]
    stack: On
    ahead: Boot | Done
    confirmed: Confirmed | None = None
    broken: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """Where a climb over several lines stands: as `Standing`, with what comes next on each line that has something to boot now.

    `done` is None while there is a boot ahead or under way. `confirmed` is by line. `away` says of each line that is out of the climb
    why; `stage` counts how often the lines have met, for a line that comes back.
    """

    verdicts: tuple[Verdict, ...]
    stack: On
    ahead: Mapping[str, Boot]
    done: Done | None
    confirmed: Mapping[str, Confirmed]
    broken: tuple[tuple[str, str], ...]
    away: Mapping[str, str]
    stage: int


def name_of(on: On) -> str:
    """Return the name of a configuration: `base`, or its levers."""
    return " + ".join(on) or "base"
