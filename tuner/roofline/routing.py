"""Routing: how a batch spreads over experts and GPUs where every expert is equally likely. Pure; chance comes in as a seed.

Real routing is skewed and rows of one request resemble each other: both touch fewer experts than is said here.
"""

import math
from functools import cache

from launcher.capacity.preset import Experts


def tokens_per_expert(
    experts: Experts, tokens_per_gpu: float, width: int = 1, slots: int | None = None
) -> float:
    """Return the mean tokens of an expert's slot when `width` GPUs pool their tokens; `slots` counts redundant copies too."""
    return tokens_per_gpu * width * experts.top_k / (slots or experts.routed)


def touched(experts: Experts, tokens: float) -> float:
    """Return the expected number of distinct experts that so many tokens visit in one layer."""
    return experts.routed * (1 - math.pow(1 - experts.top_k / experts.routed, tokens))


def slots(experts: Experts, width: int, redundant: int = 32) -> int:
    """Return the expert slots of a group: at least `redundant` copies, rounded up to a multiple of its width.

    The rule is that of DeepSeek's decode benchmark (DeepInfer, examples/benchmark.py).
    """
    return math.ceil((experts.routed + redundant) / width) * width


def busiest(experts: Experts, tokens_per_gpu: float, width: int) -> float:
    """Return the load of the busiest of `width` GPUs over the mean, in closed form.

    A GPU's visits are nearly normal: hypergeometric by token, summed over tokens, and all GPUs' together are fixed. Their expected
    maximum is then that of `width` independent normals, with variance tokens * top_k * (routed - top_k) / (routed - 1).
    """
    visits = tokens_per_gpu * experts.top_k
    spread = math.sqrt((experts.routed - experts.top_k) / (experts.routed - 1) / visits)
    return 1 + _largest(width) * spread


def simulated(experts: Experts, tokens_per_gpu: int, width: int, *, draws: int, seed: int) -> float:
    """Return the same by drawing: top-k of equally likely experts, dealt over the GPUs in order; the mean of `draws` steps."""
    import numpy as np  # noqa: PLC0415  # a tenth of a second that only a simulation pays

    chance = np.random.default_rng(seed)
    tokens = tokens_per_gpu * width
    owner = np.arange(experts.routed) * width // experts.routed
    factors = np.empty(draws)
    for draw in range(draws):
        keys = chance.random((tokens, experts.routed), dtype=np.float32)
        chosen = np.argpartition(keys, experts.top_k, axis=1)[:, : experts.top_k]
        loads = np.bincount(owner[chosen].ravel(), minlength=width)
        factors[draw] = loads.max() / loads.mean()
    return float(factors.mean())


@cache
def _largest(count: int, step: float = 0.001, reach: float = 9.0) -> float:
    """Return the expected largest of `count` independent standard normals: the integral of 1 - F^n above 0, less F^n below."""
    points = (at * step for at in range(int(reach / step)))
    # The midpoint rule; F(-x) = 1 - F(x).
    return step * sum(
        1 - _below(point + step / 2) ** count - (1 - _below(point + step / 2)) ** count for point in points
    )


def _below(value: float) -> float:
    return (1 + math.erf(value / math.sqrt(2))) / 2
