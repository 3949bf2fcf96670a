"""What a rank needs of a GB10's memory, and what vLLM says when it does not get it. Pure; GiB throughout."""

from typing import NamedTuple

TOTAL_GIB = 121.69
"""What CUDA reports as total (gb10 public captures)."""

# EXL3 experts split 512/640/640/512 over four ranks: published weights per rank of the two widths.
_WEIGHTS_TP4 = (56.6, 68.9, 68.9, 56.6)
_WEIGHTS_ALL = 245.0

_ACTIVATION = 4.6  # peak activation and what is not torch's; typical of the public recipes
_GRAPHS = 1.3  # graph capture took 1.29 and 1.99 GiB in two public boots of one configuration
_TOKENS_PER_GIB = 284_166  # 3.41 M tokens in a pinned pool of 12 GiB (bot-lab-21's model card)


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


def pool_fault(kv: float, max_model_len: int) -> str:
    """Return what vLLM says when the pool cannot hold one request; empty when it can."""
    if kv <= 0:
        return (
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
            "initializing the engine."
        )
    needed = max_model_len / _TOKENS_PER_GIB
    if needed > kv:
        return (
            f"ValueError: To serve at least one request with the model's max seq len ({max_model_len}), ({needed:.2f} GiB KV "
            f"cache is needed, which is larger than the available KV cache memory ({kv:.2f} GiB). Try increasing "
            "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
        )
    return ""


def pool_tokens(kv: float) -> int:
    """Return how many tokens the pool holds."""
    return int(kv * _TOKENS_PER_GIB)


def size_bytes(text: str) -> int:
    """Read a size: whole bytes, or with a unit as vLLM takes it (`12G`)."""
    units = {"k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1:] in units else int(text)
