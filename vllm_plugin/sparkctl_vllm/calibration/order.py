"""Order: the neurons of each expert sorted by cost inside each rank's slice, and what their tiles are then worth. Pure.

A rank keeps its own neurons, so no weight moves between ranks; widths may be uneven. Sorted descending, the importances of a rank's tiles are
non-increasing, which is what makes a prefix the best read.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.calibration.cost import UNCUT
from sparkctl_vllm.calibration.moments import Floats
from sparkctl_vllm.refusal import demand


def even(neurons: int, ranks: int, tile: int) -> tuple[int, ...]:
    """Return the widths of the ranks' slices in whole tiles, the outer ranks narrower where they cannot be equal.

    So does the split of DeepSeek-V4.1 Flash in EXL3 over four ranks: 512, 640, 640, 512 of 2304 (bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark).
    """
    tiles = neurons // tile
    demand(
        neurons % tile == 0 and tiles >= ranks > 0,
        "ranks",
        ranks,
        f"1 to {tiles}, for {neurons} neurons in tiles of {tile}",
    )
    wide = tiles % ranks
    first = (ranks - wide) // 2
    return tuple(tile * (tiles // ranks + (first <= rank < first + wide)) for rank in range(ranks))


def order(cost: Floats, widths: Sequence[int], group: int = 1) -> NDArray[np.int64]:
    """Return old places in the new order, [experts, neurons]: whole groups of `group` neighbours by their cost, inside each slice.

    Ties keep their order, so the result does not depend on the machine.
    """
    demand(
        sum(widths) == cost.shape[1],
        "widths",
        list(widths),
        f"a sum of {cost.shape[1]}, the neurons of an expert",
    )
    demand(all(width % group == 0 for width in widths), "widths", list(widths), f"multiples of {group}")
    parts, begin = [], 0
    for width in widths:
        groups = cost[:, begin : begin + width].reshape(len(cost), -1, group).sum(2)
        first = np.argsort(-groups, axis=1, kind="stable") * group + begin
        parts.append((first[:, :, None] + np.arange(group)).reshape(len(cost), width))
        begin += width
    return np.concatenate(parts, axis=1)


def importance(
    cost: Floats, places: NDArray[np.int64], tile: int, rare: NDArray[np.bool_] | None = None
) -> NDArray[np.float32]:
    """Return what each tile is worth at load 1, [experts, tiles of all ranks]; rare experts are never cut."""
    tiles = np.take_along_axis(cost, places, axis=1).reshape(len(cost), -1, tile).sum(2)
    if rare is not None:
        tiles = np.where(rare[:, None], UNCUT / tiles.shape[1], tiles)
    rounded: NDArray[np.float32] = tiles.astype(np.float32)
    return rounded
