"""Rank fill: experts spread over GPUs, each with the same budget. A layer waits for its slowest GPU, so each fills its own budget.

The problem separates by GPU: each is a water-fill at a price of its own, and every GPU with tiles left to read spends its whole budget.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.refusal import demand
from sparkctl_vllm.waterfill import filled


def rank_filled(
    loads: NDArray[np.int32],
    importance: NDArray[np.float32],
    ranks: NDArray[np.integer],
    budgets: Sequence[int],
    floor: int = 1,
) -> NDArray[np.int64]:
    """Return depths: expert e lies on GPU ranks[e], which reads at most budgets[ranks[e]] tiles (floors come first)."""
    demand(ranks.shape == loads.shape, "ranks", ranks.shape, f"one an expert, {loads.shape}")
    known = ranks.size == 0 or (ranks.min() >= 0 and ranks.max() < len(budgets))
    demand(known, "ranks", sorted(set(ranks.tolist())), f"0 to {len(budgets) - 1}")
    depths = np.zeros(len(loads), dtype=np.int64)
    for rank, budget in enumerate(budgets):
        mine = ranks == rank
        if mine.any():
            depths[mine] = filled(loads[mine], importance[mine], budget, floor)
    return depths
