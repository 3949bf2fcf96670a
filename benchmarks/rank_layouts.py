"""Layouts of one layer's experts over ranks, and what every rank's tiles are worth. Pure: every rank computes the same for all.

Tensor parallel gives every rank a slice of every expert's neurons, expert parallel gives every rank whole experts. Importances are synthetic:
each neuron's cost is drawn lognormal, sorted inside the rank's slice and summed by tile, as calibration does it with measured costs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.experts import TILE

SIGMA = 1.5
"""Spread of the neurons' costs. Ours: the best half of the tiles keeps about nine tenths, as skewed as budget reads hope for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How many experts and neurons there are, and which rank holds what."""

    name: str
    experts: int
    widths: tuple[int, ...] = ()
    """Neurons of each rank's slice of every expert; empty for expert parallel."""
    held: tuple[int, ...] = ()
    """Experts of each rank, whole; empty for tensor parallel."""
    neurons: int = 2304

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.widths or self.held)

    def tiles(self, rank: int) -> int:
        """Return the tiles of one of a rank's experts."""
        return (self.widths[rank] if self.widths else self.neurons) // TILE

    def range_of(self, rank: int) -> range:
        """Return the experts that a rank holds, whole or sliced."""
        if self.widths:
            return range(self.experts)
        begin = sum(self.held[:rank])
        return range(begin, begin + self.held[rank])

    def local(self, picks: NDArray[np.int32], rank: int) -> NDArray[np.int32]:
        """Return picks as a rank counts its experts: -1 for another rank's."""
        mine = self.range_of(rank)
        here = (picks >= mine.start) & (picks < mine.stop)
        return np.where(here, picks - mine.start, -1).astype(np.int32)


def layouts(ranks: int, experts: int = 384, neurons: int = 2304) -> tuple[Layout, ...]:
    """Return the layouts of so many ranks: tensor parallel even and uneven, and expert parallel.

    Uneven widths are whole blocks of 128 neurons, as EXL3 splits; where the even split already is, the first rank takes one of the last's.
    """
    even = (neurons // ranks,) * ranks
    blocks = neurons // 128
    if blocks % ranks:
        wide = blocks % ranks
        first = (ranks - wide) // 2
        uneven = tuple(128 * (blocks // ranks + (first <= rank < first + wide)) for rank in range(ranks))
    else:
        uneven = (even[0] + 128, *even[1:-1], even[-1] - 128)
    found = (
        [Layout(name=f"TP{ranks} uneven", experts=experts, widths=uneven, neurons=neurons)]
        if ranks > 1
        else []
    )
    if neurons % (ranks * TILE) == 0:
        found.insert(0, Layout(name=f"TP{ranks} even", experts=experts, widths=even, neurons=neurons))
    held = (experts // ranks,) * ranks
    return (*found, Layout(name=f"EP{ranks}", experts=experts, held=held, neurons=neurons))


def importances(layout: Layout, layer: int, seed: int) -> tuple[NDArray[np.float32], ...]:
    """Return every rank's importances of a layer, float32 [experts of the rank, its tiles], non-increasing along the tiles."""
    chance = np.random.default_rng([seed, layer])
    cost = np.exp(SIGMA * chance.standard_normal((layout.experts, layout.neurons), dtype=np.float32))
    found, begin = [], 0
    for rank in range(layout.ranks):
        width = layout.tiles(rank) * TILE
        mine = layout.range_of(rank)
        part = cost[mine.start : mine.stop, begin : begin + width]
        begin += width if layout.widths else 0
        ordered = np.sort(part, axis=1)[:, ::-1].reshape(len(part), -1, TILE)
        found.append(ordered.sum(2, dtype=np.float64).astype(np.float32))
    return tuple(found)


def routing(  # noqa: PLR0913, PLR0917 - what a draw depends on
    steps: int, rows: int, layout: Layout, skew: float, seed: int, top_k: int = 6
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return picks and router weights of many steps, [steps, rows, top-k]; `skew` is the sigma of the experts' lognormal popularity."""
    chance = np.random.default_rng(seed)
    taste = skew * chance.standard_normal(layout.experts)
    noise = chance.gumbel(size=(steps, rows, layout.experts))
    picks = np.argpartition(-(taste + noise), top_k, axis=2)[:, :, :top_k]
    weights = chance.random((steps, rows, top_k)) + 0.05
    scaled = 1.5 * weights / weights.sum(2, keepdims=True)
    return picks.astype(np.int32), scaled.astype(np.float32)
