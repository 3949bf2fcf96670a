"""What this method makes of figures that others published: one boot a row proves nothing, and so many boots would.

Each row is held against the last one before it that its owners kept, as their own rule did. The scatter is that which is known
of a line like theirs; a single boot of each arm cannot show it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import variance

from tuner.evidence import WANTED_GAIN, WANTED_POWER
from tuner.lever import Ladder
from tuner.noise import Noise
from tuner.statistics import boots_wanted
from tuner.verdict import SeedRule, seed_rule

KEPT = ("base", "accept")
"""Their verdicts after which a row is what the next one is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One boot of somebody else's: their line, their name for it, its lever, its figures and what they made of it."""

    line: str
    row: str
    lever: str
    figures: Mapping[str, float]
    theirs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """A reading against another: ratios by metric, the chance of as large a best one by noise alone, and the boots a proof takes.

    `chance` is for the primary that reads best, corrected for there being several; None where no primary can be compared.
    """

    reading: Reading
    against: str
    ratios: Mapping[str, float]
    seed_rule: SeedRule
    chance: float | None
    boots: int | None


def noise_of(readings: Sequence[Reading], otherwise: Noise) -> Noise:
    """Return how much rows that are all called base differ, over every line that has two; where none has, what is known otherwise."""
    squares: dict[str, list[tuple[float, int]]] = {}
    for line in {one.line for one in readings}:
        bases = [one.figures for one in readings if (one.line, one.theirs) == (line, "base")]
        for name in otherwise.scatter:
            logs = [math.log(figures[name]) for figures in bases if name in figures]
            if len(logs) > 1:
                squares.setdefault(name, []).append((variance(logs) * (len(logs) - 1), len(logs) - 1))
    own = {
        name: math.sqrt(sum(s for s, _ in found) / sum(d for _, d in found))
        for name, found in squares.items()
    }
    boots = max((sum(d + 1 for _, d in found) for found in squares.values()), default=0)
    return replace(
        otherwise, scatter={**otherwise.scatter} | {name: s for name, s in own.items() if s}, boots=boots
    )


def rejudge(readings: Sequence[Reading], ladder: Ladder, noise: Noise) -> tuple[Rejudged, ...]:
    """Judge every reading that has one to be held against."""
    kept: dict[str, Reading] = {}
    found: list[Rejudged] = []
    levers = sum(one.theirs != "base" for one in readings)
    for one in readings:
        base = kept.get(one.line)
        if base is not None and one.theirs != "base":
            found.append(_held(one, base, ladder, noise, ladder.error / (levers * len(ladder.primary))))
        if one.theirs in KEPT:
            kept[one.line] = one
    return tuple(found)


def _held(one: Reading, base: Reading, ladder: Ladder, noise: Noise, error: float) -> Rejudged:
    names = (*ladder.primary, *(guard.metric for guard in ladder.guards))
    ratios = {
        name: one.figures[name] / base.figures[name]
        for name in names
        if name in one.figures and name in base.figures
    }
    compared = [name for name in ladder.primary if name in ratios and name in noise.scatter]
    chances = [_tail(math.log(ratios[name]) / (noise.scatter[name] * math.sqrt(2))) for name in compared]
    best = max(compared, key=lambda name: ratios[name], default="")
    return Rejudged(
        reading=one,
        against=base.row,
        ratios=ratios,
        seed_rule=seed_rule(ladder, base.figures, one.figures),
        chance=1 - (1 - min(chances)) ** len(chances) if chances else None,
        boots=2 * _arm(ratios[best], noise.scatter[best], error) if best else None,
    )


def _arm(ratio: float, scatter: float, error: float) -> int:
    return boots_wanted(scatter, max(math.log(ratio), math.log1p(WANTED_GAIN)), error, WANTED_POWER)


def _tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2
