"""Offer: the KV cache that every rank can hold, from what the ranks of one boot offered. Pure.

Ranks offer unlike amounts where weights are cut unevenly (EXL3 experts at TP4: 68.9 GiB on two ranks, 56.6 on the others; bot-lab-21/
DeepSeek-V4.1-Flash-EXL3-DGX-Spark, reported), and whether the engine sizes by the first or the least is disputed. A pin ends that.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.evidence import Values

MARGIN_GIB = 1.0
"""Kept off the least offer. Ours, chosen: above the 0.17 GiB by which two boots of one configuration differed (29.97 and 30.14 GiB,
tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, reported), and what the free memory of a node differs by from day to day is not known."""

_STEP_GIB = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A size for `memory.kv_cache_gib`, the same on every rank; `node` offered least, `least_gib` to `most_gib` were offered."""

    gib: float
    node: str
    least_gib: float
    most_gib: float


def pin(found: Mapping[str, Values]) -> Pin | None:
    """Return the pin that the ranks of one boot allow; None where one of them did not say what it offers, or too little."""
    offers = {node: [float(one) for one in values.get("kv_gib", ())] for node, values in found.items()}
    if not offers or not all(offers.values()):
        return None
    least = {node: min(gibs) for node, gibs in offers.items()}
    node = min(least, key=lambda one: least[one])
    gib = math.floor((least[node] - MARGIN_GIB) / _STEP_GIB) * _STEP_GIB
    return Pin(gib=gib, node=node, least_gib=least[node], most_gib=max(least.values())) if gib > 0 else None
