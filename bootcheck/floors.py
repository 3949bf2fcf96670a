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
    # Decode-shaped GEMV: 230 GB/s in the fast state, 70 in the hidden slow state, nothing in between was reported.
    gemv_gb_s: Floor = Floor(
        value=150.0,
        unit="GB/s",
        origin="between 230 (fast) and 70 (slow) of tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1 (reported)",
    )
    # RoCE needs a port MTU of 4200 for an active MTU of 4096; the rituals in the field ask for 9000.
    mtu: Floor = Floor(
        value=9000,
        unit="bytes",
        origin="boot rituals in the field ask for 9000; 4200 is enough for a RoCE MTU of 4096 "
        "(NVIDIA/dgx-spark-playbooks PR#103, reported): set floors.mtu then",
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
