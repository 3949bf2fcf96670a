"""The plan of a climb, fixed before its first boot: when it looks, when it ends, how the error is shared among the metrics.

Takes a ladder and how noisy its line is (calibration: boots of the base alone); nothing in it may depend on what a lever does.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy

from tuner.factorial.bounds import Look
from tuner.factorial.hadamard import runs_of_block
from tuner.lever import Ladder
from tuner.noise import Noise

Arming = Literal["blocks", "alone"]

FIRST_SHARE = 0.5
LOOK_EVERY = 4
"""The first look at half of the planned runs of the blocks, then after every two mirrored pairs. Ours, by benchmarks/tuner_study.py:
earlier looks give up levers that would still have won, and hardly a climb of twelve levers ends before."""

LEAST_RUNS = ((8, 40), (16, 64))
"""Runs at least, for up to so many levers: with 32 runs and five levers of a quiet line +4 % on six streams alone is found in
86 %, with 40 in 95. For more levers two whole blocks. Ours, likewise."""

WANTED_GAIN = 0.04
WANTED_POWER = 0.95
"""Runs at most: those that prove +4 % on the noisiest primary with this power, where that is more. Ours, likewise."""

LEAST_SHARE = 0.02
"""Share of the error kept for a primary whose size bar alone is stricter than any proof. Ours, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Runs of the blocks at the first look, between looks and at most; each primary's share of the error and its covariates.

    `arming` says how it is found out whether a lever boots at all: `blocks` by the first block itself, in which every lever
    is on in one of the first two boots and a broken one is found by halving; `alone` by booting each alone before. `variances` say of a
    climb over two lines how much noisier the second is expected to be, as a ratio of variances by metric; 1 where nothing is said.
    """

    arming: Arming
    first: int
    step: int
    most: int
    shares: Mapping[str, float]
    covariates: Mapping[str, tuple[str, ...]]
    variances: Mapping[str, float] = field(default_factory=dict)

    def is_look(self, runs: int) -> bool:
        """Whether the levers are judged after that many runs of the blocks."""
        return runs >= self.most or (runs >= self.first and (runs - self.first) % self.step == 0)

    def look(self, runs: int, measured: int) -> Look:
        """Return the look after that many runs, of which so many were measured."""
        return Look(information=measured, share=min(1.0, runs / self.most))


def plan(ladder: Ladder, noise: Noise, most: int | None = None, arming: Arming = "blocks") -> Plan:
    """Return the plan for a ladder on a line of this noise; `most` runs of the blocks, or as many as the noise asks for."""
    covariates = {name: _covariates(ladder, noise, name) for name in ladder.primary}
    left = remaining(ladder, noise)
    runs = most or max(_least(levers_judged(ladder)), _runs(ladder, max(left.values())))
    return Plan(
        arming=arming,
        first=max(1, round(FIRST_SHARE * runs)),
        step=LOOK_EVERY,
        most=runs,
        shares=_shares(ladder, left, runs),
        covariates=covariates,
    )


def remaining(ladder: Ladder, noise: Noise) -> Mapping[str, float]:
    """Return the scatter of each primary that its covariates leave."""
    return {
        name: noise.scatter[name] * math.sqrt(1 - _explained(noise, len(_covariates(ladder, noise, name))))
        for name in ladder.primary
    }


def levers_judged(ladder: Ladder) -> int:
    """Return how many levers the error is shared among: those of kind speed."""
    return sum(lever.kind == "speed" for lever in ladder.levers)


def _least(levers: int) -> int:
    found = next((runs for most, runs in LEAST_RUNS if levers <= most), None)
    return found or 2 * runs_of_block(levers)


def _covariates(ladder: Ladder, noise: Noise, name: str) -> tuple[str, ...]:
    """Return the metrics that are less noisy than this one: they tell most of what a boot's luck was."""
    named = (*ladder.primary, *(guard.metric for guard in ladder.guards))
    return tuple(other for other in dict.fromkeys(named) if noise.scatter[other] < noise.scatter[name])


def _explained(noise: Noise, covariates: int) -> float:
    """Return the share of variance that so many equally correlated covariates explain: c r^2 / (1 + (c - 1) r)."""
    r = noise.correlation
    return covariates * r * r / (1 + (covariates - 1) * r) if covariates else 0.0


def _runs(ladder: Ladder, scatter: float) -> int:
    """Return N = 4 s^2 (z_error + z_power)^2 / gain^2, rounded up to a whole step."""
    error = ladder.error / max(1, levers_judged(ladder))
    quantiles = -float(scipy.special.ndtri(error)) + float(scipy.special.ndtri(WANTED_POWER))
    wanted = 4 * (scatter * quantiles / math.log1p(WANTED_GAIN)) ** 2
    return LOOK_EVERY * math.ceil(wanted / LOOK_EVERY)


def _shares(ladder: Ladder, left: Mapping[str, float], runs: int) -> dict[str, float]:
    """Share the error among the primaries.

    A useless lever has to read min_gain as well, and on a quiet metric that alone is rarer than any share of the error.
    What such a metric cannot spend goes to the others; that changes power, never the error, since shares add up to 1.
    """
    even = 1 / len(ladder.primary)
    size = math.log1p(ladder.min_gain)
    spends = {
        name: levers_judged(ladder)
        * float(scipy.special.ndtr(-size / (2 * scatter / math.sqrt(runs))))
        / ladder.error
        for name, scatter in left.items()
    }
    loudest = max(spends, key=lambda name: spends[name])
    quiet = {
        name: float(np.clip(spend, LEAST_SHARE, even))
        for name, spend in spends.items()
        if spend < even and name != loudest
    }
    loud = (1 - sum(quiet.values())) / (len(left) - len(quiet))
    return {name: quiet.get(name, loud) for name in left}
