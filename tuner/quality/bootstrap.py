"""Bootstrap: a mean over the positions of texts with its bounds, neighbours in a text drawn together.

Takes sums over blocks of positions, an array of run by measure by block, and the blocks' sizes; gives means and percentile
bounds. Blocks (Carlstein 1986, not overlapping) are drawn from all texts, and boots where there are several of a configuration.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Positions that are drawn together, since neighbours in a text depend on each other. Ours."""

DRAWS = 4000
CONFIDENCE = 0.90
"""Two-sided, so each bound is a one-sided 95 %, as for the guards of a ladder."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over positions with its bounds."""

    mean: float
    low: float
    high: float


def estimates(runs: Array, sizes: Array, seed: int) -> tuple[Estimate, ...]:
    """Return for each measure the mean over runs and positions with its bounds."""
    drawn = draws(runs, sizes, seed)
    means = runs.sum(axis=2).mean(axis=0) / sizes.sum()
    return tuple(interval(float(mean), drawn[:, at]) for at, mean in enumerate(means))


def draws(runs: Array, sizes: Array, seed: int, *, salt: int = 0) -> Array:
    """Return draw by measure: the mean with blocks and boots drawn anew.

    Every call with one seed draws the same blocks, so that two configurations are compared on the same positions; `salt`
    draws the boots of each configuration by themselves.
    """
    blocks = _counts(np.random.default_rng(seed), len(sizes))
    boots = _counts(np.random.default_rng((seed, salt)), len(runs)) / len(runs)
    means = np.einsum("db,rmb->drm", blocks, runs, optimize=True) / (blocks @ sizes)[:, None, None]
    return np.asarray(np.einsum("dr,drm->dm", boots, means), dtype=np.float64)


def interval(mean: float, drawn: Array) -> Estimate:
    """Return a mean with the percentiles of its draws as bounds."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(mean=mean, low=float(low), high=float(high))


def _counts(chance: np.random.Generator, number: int) -> Array:
    """Return draw by item: how often each item was drawn with replacement."""
    counts = chance.multinomial(number, np.full(number, 1 / number), size=DRAWS)
    return np.asarray(counts, dtype=np.float64)
