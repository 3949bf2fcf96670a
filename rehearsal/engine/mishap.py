"""What goes wrong with a rank while it loads: its node's hidden state names it, and nothing but the rank shows it."""

import asyncio

from rehearsal.engine.life import HOST_MIB, Failed, Life
from rehearsal.faces.system import memory_kib

_TORN = (
    "safetensors_rust.SafetensorError: Error while deserializing header: invalid JSON in header: EOF while parsing a "
    "value at line 1 column 0"
)
"""Nine boots of nine ended so with sound hashes (eugr/spark-vllm-docker#275, reported)."""

_FALL_GIB_S = 6.5  # 13 GiB within 2 s (vllm-project/vllm#46307, reported)
_LEFT_GIB = 0.6  # ours, chosen: below the 1 GiB at which reported nodes no longer answered
_LEAST_GIB = 0.01
_TICK_S = 0.25  # of the line's seconds; a guard that looks once a second must see a slope, not a step


async def strike(life: Life, gpu_gib: float) -> None:
    """Let happen what the node has in store for a rank that is half loaded; `gpu_gib` is what it holds by then."""
    match life.node.rank_fault:
        case "dies-loading":
            raise Failed(_TORN)
        case "silent-loading":
            await _for_ever()
        case "starves":
            await _starve(life, gpu_gib)


async def _starve(life: Life, gpu_gib: float) -> None:
    """Take the host's memory until next to nothing is available, and hold it; it comes back when the process ends."""
    taken = 0.0
    while (left := memory_kib(life.node.root)["MemAvailable"] / 1024**2 - _LEFT_GIB) > _LEAST_GIB:
        taken += min(_FALL_GIB_S * _TICK_S, left)
        life.show(gpu_gib, host_mib=HOST_MIB + round(taken * 1024))
        await life.spend(_TICK_S)
    await _for_ever()


async def _for_ever() -> None:
    await asyncio.Event().wait()
