"""Account: what an EXL3 checkpoint's routed experts take on each rank, and what a plan says is kept at each depth. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparkctl_vllm.calibration.cost import LEAST_TOKENS
from sparkctl_vllm.exl3.checkpoint import Shape
from sparkctl_vllm.exl3.matrix import BLOCK
from sparkctl_vllm.plan_file import Plan
from sparkctl_vllm.refusal import demand

MARKER = 4
"""Bytes of the int32 that names a codebook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bits:
    """Bits a weight of all routed experts: of the trellis alone, and with scales and markers."""

    trellis: float
    stored: float


def rank_bytes(shapes: Mapping[int, Shape], width: int) -> int:
    """Return the bytes of all layers' experts on a rank whose slice is so many neurons wide: trellis, suh, svh and markers."""
    return sum(one.experts * sum(_matrix(one, part, width) for part in one.rates) for one in shapes.values())


def block_bytes(shape: Shape) -> int:
    """Return the trellis bytes of one block of 128 neurons of an expert: what a budget read reads or leaves."""
    return sum(shape.hidden * BLOCK * bits // 8 for bits in shape.rates.values())


def bits(shapes: Mapping[int, Shape]) -> Bits:
    """Return bits a weight over all layers."""
    weights = sum(one.experts * 3 * one.hidden * one.neurons for one in shapes.values())
    trellis = sum(one.experts * one.neurons // BLOCK * block_bytes(one) for one in shapes.values())
    stored = sum(rank_bytes({number: one}, one.neurons) for number, one in shapes.items())
    return Bits(trellis=8 * trellis / weights, stored=8 * stored / weights)


def kept(plan: Plan, layer: int) -> tuple[float, ...]:
    """Return the share of what the plan weighs (nats) that all ranks keep at depths of 1, 2, ... tiles, a narrow one at most all of its own.

    Experts weigh as often as calibration saw them; those it hardly saw are never cut and left out.
    """
    meaning, count = plan.meaning, plan.tables[f"count.L{layer}"].astype(np.float64)
    weights = np.where(count >= LEAST_TOKENS, count, 0)
    tiles = [width // meaning.tile for width in meaning.widths]
    total, answer = (
        sum(float((weights @ plan.importance(layer, rank)).sum()) for rank in range(len(tiles))),
        [],
    )
    for depth in range(1, max(tiles) + 1):
        part = sum(float((weights @ plan.importance(layer, rank)[:, :depth]).sum()) for rank in range(len(tiles)))  # fmt: skip
        answer.append(part / total if total > 0 else 1.0)
    return tuple(answer)


def fits(plan: Plan, shapes: Mapping[int, Shape]) -> None:
    """Refuse a plan that an EXL3 checkpoint of these shapes cannot be read by."""
    said = plan.meaning
    demand(
        said.format == "exl3" and said.applied,
        "plan",
        f"for {said.format}, neurons {'sorted' if said.applied else 'not sorted yet'}",
        "the plan that the quantiser wrote beside its sorted checkpoint (budget/plan)",
        "neurons of an EXL3 checkpoint cannot change places: quantise from the original with this plan (sparkctl-vllm exl3 quantize --plan)",
    )
    neurons = {one.neurons for one in shapes.values()}
    demand({sum(said.widths)} == neurons, "plan: $.widths", said.widths, f"a sum of {sorted(neurons)}")
    demand(said.layers == len(shapes), "plan: $.layers", said.layers, str(len(shapes)))


def _matrix(shape: Shape, part: str, width: int) -> int:
    inputs, outputs = (width, shape.hidden) if part == "down" else (shape.hidden, width)
    return inputs * outputs * shape.rates[part] // 8 + 2 * (inputs + outputs) + MARKER


def widths_fit(widths: Sequence[int], neurons: int) -> None:
    """Refuse slices that are not whole blocks or not all neurons."""
    demand(
        sum(widths) == neurons and all(width > 0 and width % BLOCK == 0 for width in widths),
        "--widths",
        list(widths),
        f"multiples of {BLOCK} that add up to {neurons}",
    )
