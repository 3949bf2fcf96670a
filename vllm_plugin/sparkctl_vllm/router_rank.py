"""Router rank: how deep an expert is read by the best place that it takes in any row's router order. The definition, in plain NumPy.

The router's order of a row is that of its weights, the heaviest first, equal ones by their place among the picks. An expert's rank in a step
is the best one that any row gives it, so it is a minimum of integers: every GPU, and every order of the rows, computes the same. A ladder
tells the tiles of each rank and never rises: the first `a` ranks whole, those up to `b` in part and the rest to the floor is the ladder
(a, b) of "An elephant through a straw", which chose between precisions where this chooses between depths. Importances are not asked.
"""

from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.refusal import demand

Ladder = tuple[int, ...]
"""Tiles by rank, the first rank's first."""


def checked(ladder: Ladder, top_k: int, tiles: int, floor: int = 1) -> Ladder:
    """Return the ladder; refuse one of another length, one that rises, or one that drops an expert."""
    demand(len(ladder) == top_k, "ladder", f"{len(ladder)} ranks", f"one depth a rank, {top_k}")
    demand(list(ladder) == sorted(ladder, reverse=True), "ladder", ladder, "non-increasing along the ranks")
    inside = all(floor <= depth <= tiles for depth in ladder)
    demand(
        inside, "ladder", ladder, f"{floor} to {tiles} tiles: depth 0 would drop an expert that was picked"
    )
    return ladder


def ranks(
    picks: NDArray[np.integer], weights: NDArray[np.float32], experts: int, valid: int
) -> NDArray[np.int32]:
    """Return each expert's best rank in a step, counted from 0, and top-k where no row picked it: picks and weights are [rows, top-k].

    Rows from `valid` on are padding; a negative pick belongs to another GPU (expert parallel) and keeps its place in the row's order.
    """
    demand(picks.shape == weights.shape, "router weights", weights.shape, f"the picks' shape, {picks.shape}")
    demand(0 <= valid <= len(picks), "valid rows", valid, f"0 to {len(picks)}")
    best = np.full(experts, picks.shape[1], dtype=np.int32)
    for row in range(valid):
        for rank, slot in enumerate(np.argsort(-weights[row], kind="stable")):
            expert = int(picks[row, slot])
            demand(expert < experts, "picks", expert, f"below {experts}, the number of experts")
            if expert >= 0:
                best[expert] = min(int(best[expert]), rank)
    return best


def depths(best: NDArray[np.int32], ladder: Ladder) -> NDArray[np.int32]:
    """Return each expert's depth in tiles, 0 where no row picked it."""
    return np.array([*ladder, 0], dtype=np.int32)[best]


def ladders(top_k: int, tiles: int, floor: int = 1) -> list[Ladder]:
    """Return every ladder there is: 462 for 6 ranks of 6 tiles, 3,003 for 9 tiles."""
    rising = combinations_with_replacement(range(floor, tiles + 1), top_k)
    return [tuple(reversed(one)) for one in rising]
