"""Water-filling: which tiles a step reads, exactly.

The tiles of an expert matter the less the deeper they lie, so the tiles whose value (load times importance) clears one price are a prefix of
every expert, and no other choice of as many tiles keeps more (Everett's argument: the price is a Lagrange multiplier).
"""

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.refusal import demand


def values(loads: NDArray[np.int32], importance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what each tile is worth in this step, [experts, tiles]: float32 load times float32 importance, one rounding each.

    The kernels compute the same two operations, so their depths equal these bit for bit.
    """
    check(importance)
    demand(len(loads) == len(importance), "loads", len(loads), f"one an expert, {len(importance)}")
    return loads.astype(np.float32)[:, None] * importance.astype(np.float32)


def check(importance: NDArray[np.float32]) -> None:
    """Refuse importances that are no table of finite, non-negative, non-increasing rows."""
    demand(importance.ndim == 2, "importance", f"rank {importance.ndim}", "[experts, tiles]")
    demand(np.isfinite(importance).all(), "importance", "NaN or infinite", "finite numbers")
    demand((importance >= 0).all(), "importance", float(importance.min()), "0 or more")
    rises = np.diff(importance, axis=1) > 0
    demand(
        not rises.any(),
        "importance",
        f"{int(rises.sum())} rising steps",
        "non-increasing along the tiles",
        "sort first",
    )


def cleared(
    loads: NDArray[np.int32],
    importance: NDArray[np.float32],
    price: float,
    floor: int | NDArray[np.int64] = 1,
) -> NDArray[np.int64]:
    """Return each expert's depth at a price: its tiles worth more than that, at least `floor`, and 0 where no row picked it."""
    worth = values(loads, importance) > np.float32(price)
    deep = np.maximum(worth.sum(axis=1), np.minimum(floor, importance.shape[1]))
    return np.where(loads > 0, deep, 0).astype(np.int64)


def filled(
    loads: NDArray[np.int32], importance: NDArray[np.float32], budget: int, floor: int | NDArray[np.int64] = 1
) -> NDArray[np.int64]:
    """Return the best depths that read at most `budget` tiles: the oracle. Floors come first, then the most valuable tiles.

    Ties are broken by expert, then by depth, so that every rank fills alike. Where the floors alone are over the budget, they are read.
    """
    worth = values(loads, importance).astype(np.float64)
    base = cleared(loads, importance, np.inf, floor)
    tiles = np.arange(importance.shape[1])
    free = (tiles >= base[:, None]) & (loads > 0)[:, None]
    left = min(max(0, budget - int(base.sum())), int(free.sum()))
    flat = np.where(free, worth, -1.0).reshape(-1)
    best = np.argsort(-flat, kind="stable")[:left]
    return base + np.bincount(best // importance.shape[1], minlength=len(base))


def lost(loads: NDArray[np.int32], importance: NDArray[np.float32], depths: NDArray[np.int64]) -> float:
    """Return what the skipped tiles are worth, in importance times load (2^-20 undone): the predicted damage of the step."""
    skipped = np.arange(importance.shape[1]) >= depths[:, None]
    return float((values(loads, importance).astype(np.float64) * skipped).sum() / (1 << 20))
