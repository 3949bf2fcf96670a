"""Caps: how deep the cut may be at each step size, so that the expected damage of a token never passes eps, whatever the load.

A long reply may be decoded wholly at the worst step size, so the cap holds for every one of them, not for their mean.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.price import LEAST_OCTAVE, ROUNDS, fixed
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.waterfill import cleared, lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """The price of one step size, what it reads and what it is predicted to cost."""

    price: float
    tiles: float
    """Mean tiles a step."""
    damage: float
    """Mean predicted damage a token."""


def capped(
    replayed: Mapping[int, Sequence[NDArray[np.int32]]],
    importance: NDArray[np.float32],
    budgets: Mapping[int, float],
    eps: float,
    floor: int = 1,
) -> dict[int, Capped]:
    """Return for each step size (rows) the price that reads its budget, or the lower one at which a token loses at most eps."""
    demand(eps > 0, "eps", eps, "more than 0")
    answer = {}
    for rows, steps in replayed.items():
        at_budget = _at(fixed(steps, importance, budgets[rows], floor), rows, steps, importance, floor)
        answer[rows] = (
            at_budget if at_budget.damage <= eps else _within(at_budget, rows, steps, importance, eps, floor)
        )
    return answer


def _within(  # noqa: PLR0913, PLR0917 - one bisection over everything that a price is judged by
    too_dear: Capped,
    rows: int,
    steps: Sequence[NDArray[np.int32]],
    importance: NDArray[np.float32],
    eps: float,
    floor: int,
) -> Capped:
    # By the logarithm, as prices are: where floors alone are the budget, the price to come down from is the largest number there is.
    low, high = LEAST_OCTAVE, math.log2(too_dear.price)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        within = _at(2.0**middle, rows, steps, importance, floor).damage <= eps
        low, high = (middle, high) if within else (low, middle)
    return _at(2.0**low if low > LEAST_OCTAVE else 0.0, rows, steps, importance, floor)


def _at(
    price: float, rows: int, steps: Sequence[NDArray[np.int32]], importance: NDArray[np.float32], floor: int
) -> Capped:
    read = [cleared(loads, importance, price, floor) for loads in steps]
    damage = [lost(loads, importance, depths) / rows for loads, depths in zip(steps, read, strict=True)]
    return Capped(
        price=price, tiles=float(np.mean([one.sum() for one in read])), damage=float(np.mean(damage))
    )
