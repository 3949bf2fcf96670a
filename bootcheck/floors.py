"""Thresholds: each a number with its unit and with where it comes from. Nothing here was measured by us on a GB10."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from sparkctl.errors import UsageFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """One threshold."""

    value: float
    unit: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The thresholds of the ritual. An inventory may set any of them by name for its line."""

    # The allocator sees MemFree, so page cache left over from a copy starves it.
    memory_free_gib: Floor = Floor(
        value=113.0,
        unit="GiB",
        origin="launcher floor of bot-lab-21's DeepSeek-V4.1-Flash-EXL3-DGX-Spark (reported)",
    )
    # Share of MemTotal that vLLM asks for before it starts; compared with MemAvailable as vLLM does on unified memory.
    utilisation: Floor = Floor(value=0.78, unit="of MemTotal", origin="the recipe's gpu-memory-utilization")
    # Blocks of 2 MiB and larger; the driver's big allocations fail without them while MemFree looks plenty.
    contiguous_gib: Floor = Floor(
        value=6.25,
        unit="GiB",
        origin="200 blocks of 32 MiB, the preflight of FujitsuPolycom/sparkring PR#202 (reported); counted here from 2 MiB up, "
        "since those are what ran out in tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark#19",
    )
    # Kernel default on GB10: 44 MiB of min_free, 0.3 GiB taken. 1 GiB of it is both advised and measured as harmful in public.
    reserve_gib: Floor = Floor(
        value=1.0,
        unit="GiB",
        origin="ours, chosen: 6.2 GiB taken this way made vLLM's start check fail "
        "(tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark#19, reported), the kernel's default takes 0.3",
    )
    swap_used_gib: Floor = Floor(
        value=1.0,
        unit="GiB",
        origin="ours, chosen: a quiet node has no reason to have swapped more than that out",
    )
    # The guard stops every rank below this; what else kills processes must act later than it.
    guard_available_gib: Floor = Floor(
        value=4.0,
        unit="GiB",
        origin="example of tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks (reported); "
        "tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark stops at 5",
    )
    # A burn of 4096^3 fp16 products: 75 to 90 TFLOPS at 2.2 to 2.4 GHz and 80 to 95 W when healthy, 630 to 950 MHz when latched.
    burn_tflops: Floor = Floor(
        value=50.0,
        unit="TFLOPS",
        origin="refusal of tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark and Richard0571/deepseek-v41-dgx-spark-vllm-tp4 (reported)",
    )
    burn_sm_mhz: Floor = Floor(
        value=1200.0,
        unit="MHz",
        origin="between 500 to 950 (latched, Blackwellboy/model-serving-minefield PR#55, reported) "
        "and 2200 to 2400 (healthy, tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported)",
    )
    burn_power_w: Floor = Floor(
        value=30.0,
        unit="W",
        origin="between 14 to 22 (latched) and 80 to 95 (healthy) of Blackwellboy/model-serving-minefield PR#55 (reported)",
    )
    # Decode-shaped GEMV: 230 GB/s in the fast state, 70 in the hidden slow state, nothing in between was reported.
    gemv_gb_s: Floor = Floor(
        value=150.0,
        unit="GB/s",
        origin="between 230 (fast) and 70 (slow) of tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1 (reported)",
    )
    # Bus bandwidth of an all-gather between two nodes over one cable, whose two halves NCCL must both use.
    collective_gb_s: Floor = Floor(
        value=5.0,
        unit="GB/s",
        origin="above the 3 GB/s of a wrong HCA list or NCCL build, two nodes (NVIDIA/dgx-spark-playbooks#102, reported)",
    )
    collective_good_gb_s: Floor = Floor(
        value=22.0,
        unit="GB/s",
        origin="below the 23.7 GB/s of both halves at MTU 9000, two nodes (NVIDIA/dgx-spark-playbooks PR#103, reported)",
    )
    # RoCE needs a port MTU of 4200 for an active MTU of 4096; the rituals in the field ask for 9000.
    mtu: Floor = Floor(
        value=4200,
        unit="bytes",
        origin="enough for a RoCE MTU of 4096 (NVIDIA/dgx-spark-playbooks PR#103, reported)",
    )
    mtu_recommended: Floor = Floor(
        value=9000,
        unit="bytes",
        origin="what boot rituals ask for (rhys101/DeepSeek-V4.1-Flash-vLLM-DGX-Spark-8, reported); "
        "NVIDIA/dgx-spark-playbooks PR#103 saw no gain over 4200",
    )
    roce_mtu: Floor = Floor(
        value=4096,
        unit="bytes",
        origin="the largest there is; a fabric at 1024 came with 40 % less prefill (0xSero/local-ai-registry PR#55, reported)",
    )
    # Nodes of the largest ring without a switch. Three in a ring are a full mesh.
    ring_nodes: Floor = Floor(
        value=3,
        unit="nodes",
        origin="stock NCCL builds trees too, and a ring of four has no cable for them "
        "(MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#3, PR#19, reported)",
    )
    # TCP streams from Python: a degraded link shows, what a sound one can do does not.
    transfer_share: Floor = Floor(
        value=0.5,
        unit="of the line's median",
        origin="ours, chosen: a degraded link carried 13 of 200 Gb/s (NVIDIA/dgx-spark-playbooks#108, reported), "
        "and the best of several bursts is not halved by a busy processor",
    )
    transfer_gbit_s: Floor = Floor(
        value=20.0,
        unit="Gb/s",
        origin="ours, chosen: above the 13 Gb/s of a degraded link (NVIDIA/dgx-spark-playbooks#108, reported) and far below the link; "
        "it tells when every rail is slow, and only warns, since TCP is no measure of RDMA",
    )
    # A tmpfs is carved from the same memory as everything else, and what lies in it is seen by no process table.
    shared_memory_gib: Floor = Floor(
        value=1.0,
        unit="GiB",
        origin="ours, chosen: segments of 1 GiB each were left (sgl-project/sglang#28089, reported)",
    )
    rank_shared_gib: Floor = Floor(
        value=16.0,
        unit="GiB",
        origin="the recipes that run; 64 lets half the machine be filled from the CPU's side "
        "(tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#31, reported, a hypothesis)",
    )


def override(floors: Floors, values: Mapping[str, float], origin: str) -> Floors:
    """Return the floors with some values replaced; `origin` names who replaced them.

    Raises:
        UsageFault: a name is no floor.

    """
    known = [one.name for one in fields(floors)]
    for name, value in values.items():
        if name not in known:
            raise UsageFault(
                f"{origin}: {name!r} is not a floor; wanted one of {', '.join(known)}",
                hint="docs/formats.md lists the floors of an inventory",
            )
        floors = replace(floors, **{name: replace(getattr(floors, name), value=value, origin=origin)})
    return floors
