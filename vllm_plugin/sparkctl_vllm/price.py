"""Price: one number a layer and a step size instead of a search in every step, and the controller that holds the bytes at the budget.

Calibration finds for each step size the price at which replayed steps read the budget on average. The controller moves the logarithm of the
price by the relative error of the last step, so that a drift of the routing is followed; it is pure arithmetic on values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparkctl_vllm.refusal import demand
from sparkctl_vllm.waterfill import cleared

ROUNDS = 60
"""Bisections of the logarithm over the whole range of float32. Ours: 2^-60 of 600 octaves is far below one float32 step."""
LEAST_OCTAVE = -149.0
"""Logarithm of the smallest float32 above 0."""


def fixed(
    steps: Sequence[NDArray[np.int32]], importance: NDArray[np.float32], budget: float, floor: int = 1
) -> float:
    """Return the smallest price at which the replayed steps (loads each) read at most `budget` tiles on average."""
    demand(len(steps) > 0, "replayed steps", 0, "at least one")

    def mean(price: float) -> float:
        return float(np.mean([cleared(loads, importance, price, floor).sum() for loads in steps]))

    if mean(0.0) <= budget:
        return 0.0
    low, high = LEAST_OCTAVE, 127.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(2.0**middle) > budget else (low, middle)
    return float(np.float32(2.0**high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """An integral controller on the logarithm of the price."""

    price: float
    budget: float
    """Tiles a step."""
    gain: float = 0.05
    """Octaves of price for a step that reads twice the budget. Ours: a step in routing is followed within some 100 steps."""
    reach: float = 4.0
    """Octaves by which the price may leave what calibration found; beyond that the routing is not the calibrated one."""
    moved: float = 0.0

    @property
    def now(self) -> float:
        """The price of the next step."""
        return float(self.price * 2.0**self.moved)

    def after(self, tiles: float) -> "Controller":
        """Return the controller after a step that read so many tiles."""
        demand(self.budget > 0, "budget", self.budget, "more than 0 tiles")
        error = min(max(tiles / self.budget - 1.0, -1.0), 1.0)
        return replace(self, moved=min(max(self.moved + self.gain * error, -self.reach), self.reach))
