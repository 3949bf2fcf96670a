"""Traces of lookups that follow the published coverage curve: ranks of popularity drawn by its inverse, and which row has which rank.

The curve is bot-lab-21's for DeepSeek-V4.1-Flash-EXL3 (model card, Engram): what share of held-out lookups the hottest rows of a table of 384
million answer. Between its points we draw a straight line in the logarithms of both, below the first the first line goes on, above the last a
plain straight line to the whole. Lookups are drawn apart from each other, so neighbours of a text, which share n-grams, are not modelled.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WHOLE = 384_006_168
POINTS = ((1e6, 0.43), (5e6, 0.59), (10e6, 0.67), (20e6, 0.74), (50e6, 0.84), (100e6, 0.927))


@dataclass(frozen=True, slots=True, kw_only=True)
class Popularity:
    """A table of `rows` rows of which the row with rank r of popularity is (r * step + first) mod rows: scattered, as hashing scatters them."""

    rows: int
    step: int
    first: int

    @classmethod
    def of(cls, rows: int, seed: int) -> "Popularity":
        """Return one whose step is near the golden section of the rows and shares no divisor with them."""
        step = int(rows * 0.6180339887) + 2 * seed
        while math.gcd(step, rows) != 1:
            step += 1
        return cls(rows=rows, step=step, first=seed * 7919)

    def ids(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of these ranks."""
        return (ranks * self.step + self.first) % self.rows

    def hottest(self, share: float) -> NDArray[np.uint32]:
        """Return the rows that answer that share of the lookups, ascending."""
        return np.sort(self.ids(np.arange(self.kept(share)))).astype(np.uint32)

    def kept(self, share: float) -> int:
        """Return how many of the hottest rows answer that share."""
        return round(float(rank_of(np.array([share]))[0]) * self.rows)

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return ranks of so many lookups."""
        return np.minimum((rank_of(generator.random(shape)) * self.rows).astype(np.int64), self.rows - 1)


def rank_of(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the part of a table's rows, 0 to 1, hottest first, that answers this share of the lookups: the curve's inverse."""
    sizes, shares = (np.array(one) for one in zip(*POINTS, strict=True))
    slope = math.log(shares[1] / shares[0]) / math.log(sizes[1] / sizes[0])
    with np.errstate(divide="ignore"):
        below = sizes[0] * (share / shares[0]) ** (1 / slope)
    between = np.exp(np.interp(np.log(np.maximum(share, shares[0])), np.log(shares), np.log(sizes)))
    above = sizes[-1] + (share - shares[-1]) / (1 - shares[-1]) * (WHOLE - sizes[-1])
    return np.asarray(
        np.where(share < shares[0], below, np.where(share > shares[-1], above, between)) / WHOLE
    )
