"""Loads of a step: how much each expert's output weighs, as integers, so that every rank and every order of adding gives the same bits.

The load of an expert is the sum of the squared router weights of the rows that picked it. One square is rounded once, to a multiple of
2^-20; from there on only integers are added.
"""

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.refusal import demand

UNIT = 1 << 20
"""Loads are counted in units of 2^-20. Ours: a router weight of 0.001 still weighs 1, and 512 picks of weight 4 fit into 2^33."""
MOST_WEIGHT = 4.0
"""Largest router weight. Ours: V4.1 normalises to 1.5; at 4 the sum over 64 rows still fits into int32."""


def squared(weights: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return each router weight's square in units of 2^-20, at least 1: float32 product, rounded to nearest, ties to even."""
    finite = np.isfinite(weights).all() and bool((np.abs(weights) <= MOST_WEIGHT).all())
    demand(finite, "router weights", _worst(weights), f"finite, at most {MOST_WEIGHT:g} in magnitude")
    narrow = weights.astype(np.float32)
    units: NDArray[np.float32] = np.rint(narrow * narrow * np.float32(UNIT))
    return np.maximum(units.astype(np.int32), np.int32(1))


def loads(
    picks: NDArray[np.integer], weights: NDArray[np.float32], experts: int, valid: int
) -> NDArray[np.int32]:
    """Return the load of each expert: picks and weights are [rows, top-k]; rows from `valid` on are padding and weigh nothing.

    A negative pick belongs to another rank (expert parallel) and is passed over.
    """
    demand(
        picks.shape == weights.shape,
        "router weights",
        weights.shape,
        f"the shape of the picks, {picks.shape}",
    )
    demand(0 <= valid <= len(picks), "valid rows", valid, f"0 to {len(picks)}")
    chosen = picks[:valid]
    demand(
        (chosen < experts).all(), "picks", chosen.max(initial=0), f"below {experts}, the number of experts"
    )
    here = chosen >= 0
    total = np.zeros(experts, dtype=np.int64)
    np.add.at(total, chosen[here], squared(weights[:valid])[here].astype(np.int64))
    demand((total < 1 << 31).all(), "loads", int(total.max(initial=0)), "below 2^31 units of 2^-20")
    return total.astype(np.int32)


def _worst(weights: NDArray[np.float32]) -> object:
    finite = weights[np.isfinite(weights)]
    return "NaN or infinite" if finite.size < weights.size else float(np.abs(finite).max(initial=0))
