"""What a rank needs of a GB10's memory, and what vLLM says when it does not get it. Pure; GiB throughout."""

import math
from typing import NamedTuple

from rehearsal.engine.flags import Argv

TOTAL_GIB = 121.69
"""What CUDA reports as total (gb10 public captures)."""

# EXL3 experts split 512/640/640/512 over four ranks: published weights per rank of the two widths.
_WEIGHTS_TP4 = (56.6, 68.9, 68.9, 56.6)
_WEIGHTS_ALL = 245.0

_ACTIVATION = 4.6  # peak activation and what is not torch's; typical of the public recipes
_GRAPHS = 1.3  # graph capture took 1.29 and 1.99 GiB in two public boots of one configuration

# The pool of DeepSeek-V4.1-Flash with its drafter, as three boots logged it under vLLM 0.28.1rc1 with the SM12x page patch
# (bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark, recipe/ops/KV_ACCOUNTING_REPORT.md): 12 GiB print 2,561,073 tokens at 300,000
# a request and 3,411,140 at 1,000,000. Whatever a practice line is asked to serve, its cache is this one's.
_BLOCK_BYTES = 138_240
_WHOLE = (128, 64)
"""Tokens of a block, by group that keeps a request whole."""
_STATES = 64
"""Tokens of a block of every group with a window."""
_WINDOWS = {128: 14, 133: 1}
"""Groups by the tokens that they look back on; the drafter's 133 is inferred, from 130 to 193 the logged figures are the same."""
_LONGEST = 1_048_576  # the model's positions


class Plan(NamedTuple):
    """How a rank will fill its memory."""

    weights: float
    kv: float
    """What this rank could give the KV cache."""
    pinned: bool

    @property
    def graphs(self) -> float:
        """What graph capture takes."""
        return _GRAPHS

    def used(self, kv: float) -> float:
        """Return what the rank holds when the pool has that size."""
        return self.weights + kv + _ACTIVATION + _GRAPHS


def plan(rank: int, world: int, utilization: float, pin_bytes: int) -> Plan:
    """Return a rank's plan."""
    weights = _WEIGHTS_TP4[rank] if world == len(_WEIGHTS_TP4) else _WEIGHTS_ALL / world
    if pin_bytes:
        return Plan(weights, pin_bytes / 1024**3, pinned=True)
    return Plan(weights, utilization * TOTAL_GIB - weights - _ACTIVATION - _GRAPHS, pinned=False)


def shortage(available: float, utilization: float) -> str:
    """Return what vLLM's start check says when too little memory is free; empty when there is enough."""
    wanted = utilization * TOTAL_GIB
    if available >= wanted:
        return ""
    return (
        f"ValueError: Free memory on device cuda:0 ({available:.2f}/{TOTAL_GIB:.2f} GiB) on startup is less than desired GPU "
        f"memory utilization ({utilization:g}, {wanted:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory used "
        "by other processes."
    )


class Pool(NamedTuple):
    """The KV cache of a rank."""

    gib: float
    longest: int
    """Tokens of the longest request."""
    blocks: int
    drawn: int
    """Blocks that one request of full length draws."""

    @property
    def requests(self) -> float:
        """How many requests of full length fit at once."""
        return self.blocks / self.drawn

    @property
    def tokens(self) -> int:
        """What vLLM prints: those requests times their length, so another length gives another figure from the same bytes."""
        return int(self.requests * self.longest)

    @property
    def fault(self) -> str:
        """What vLLM says when the pool cannot hold one request; empty when it can."""
        if self.gib <= 0:
            return (
                "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
                "initializing the engine."
            )
        if self.blocks >= self.drawn:
            return ""
        needed = self.drawn * _BLOCK_BYTES / 1024**3
        return (
            f"ValueError: To serve at least one request with the model's max seq len ({self.longest}), ({needed:.2f} GiB KV "
            f"cache is needed, which is larger than the available KV cache memory ({self.gib:.2f} GiB). Try increasing "
            "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
        )


def pool(gib: float, argv: Argv) -> Pool:
    """Cut a pool into blocks, and count those of the longest request that the command line allows."""
    length, flying = longest(argv), batched(argv)
    if argv.is_on("async-scheduling", otherwise=True):  # vLLM schedules a step ahead unless it is told not to
        flying *= 2
    whole = sum(math.ceil(length / block) for block in _WHOLE)
    # A window and what is in flight may begin inside a block.
    windows = sum(
        groups * (math.ceil(min(window - 1 + flying, length) / _STATES) + 1)
        for window, groups in _WINDOWS.items()
    )
    return Pool(gib, length, int(gib * 1024**3) // _BLOCK_BYTES, whole + windows)


def longest(argv: Argv) -> int:
    """Return the tokens of the longest request."""
    return argv.number("max-model-len", _LONGEST)


def batched(argv: Argv) -> int:
    """Return the tokens that one step computes at most."""
    return argv.number("max-num-batched-tokens", 2048)


def size_bytes(text: str) -> int:
    """Read a size: whole bytes, or with a unit as vLLM takes it (`12G`)."""
    units = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1:] in units else int(text)
