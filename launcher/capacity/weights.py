"""Weights: from the tensors of a checkpoint to the bytes that each rank of a tensor parallel line holds. Pure; nothing is loaded.

What vLLM cuts is told by a tensor's name. Routed experts are cut by their intermediate size: alike and padded for MXFP4, in
blocks of 128 for EXL3, which four ranks cannot share evenly.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from launcher.capacity.preset import Experts, Format, Inventory, LayerBits, Row
from sparkctl.errors import FileFault, Refused

PADDED_TO = 128
"""vLLM rounds a rank's share of the intermediate size up to this for its DeepGEMM, Marlin, TRTLLM and CUTLASS MXFP4 kernels; b12x
does not (vllm/model_executor/layers/fused_moe/oracle/mxfp4.py of 0.33.0)."""

BLOCK = 128
"""Neurons that EXL3 experts are cut by: 2304 over four ranks gives 512, 640, 640 and 512 (bot-lab-21 and tonyd2wild, reported)."""

_CUT = re.compile(
    r"(^|\.)((embed|head|lm_head|embed_tokens)\.weight"
    r"|attn\.(wq_b|wo_a|wo_b)|shared_experts\.w[123]|engram\.wkv"
    r"|[qkv]_proj|o_proj|(gate|up|gate_up|down)_proj|[qk]v?_b_proj)(\.|$)"
)
_EXPERT, _DRAFTER, _TABLE = re.compile(r"\.experts\."), re.compile(r"^mtp\."), re.compile(r"\.engram\.embed")
_WHOLE = re.compile(r"^mtp\.[0-9]+\.markov_head\.|\.indexer\.|^vision\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """Tensors of a checkpoint that are treated alike: their bytes altogether."""

    name: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Bytes of a checkpoint by how they reach the ranks: `cut` over all, `whole` on each, routed experts, and Engram's tables."""

    cut: int
    whole: int
    experts: int
    drafter_experts: int
    tables: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Bytes of routed experts on one rank: `width` neurons of each, and what the kernels' padding adds."""

    width: int
    size: int
    padding: int


def tensors(inventory: Inventory) -> tuple[Tensors, ...]:
    """Return the tensors of an inventory with their bytes.

    Raises:
        FileFault: they do not add up to the total that the inventory itself states.

    """
    found = tuple(
        Tensors(name=row.name, kind=row.kind, size=_size(row, inventory.formats)) for row in inventory.rows
    )
    total = sum(one.size for one in found)
    if total != inventory.total_bytes:
        raise FileFault(
            f"inventory {inventory.name}: its tensors add up to {total:,} bytes, wanted {inventory.total_bytes:,} (total_bytes)",
            hint="mend a shape, a count or a format in recipes/models/tensors/",
        )
    return found


def totals(found: Sequence[Tensors]) -> Totals:
    """Add up the tensors by how they reach the ranks."""
    experts = [one for one in found if _EXPERT.search(one.name)]
    tables = [one for one in found if _TABLE.search(one.name)]
    rest = [one for one in found if one not in experts and one not in tables]
    cut = [one for one in rest if _CUT.search(one.name) and not _WHOLE.search(one.name)]
    return Totals(
        cut=_sum(cut),
        whole=_sum(rest) - _sum(cut),
        experts=_sum([one for one in experts if not _DRAFTER.search(one.name)]),
        drafter_experts=_sum([one for one in experts if _DRAFTER.search(one.name)]),
        tables=_sum(tables),
    )


def even(size: int, intermediate: int, ranks: int, padded_to: int = PADDED_TO) -> tuple[Share, ...]:
    """Cut experts of `size` bytes into like shares, each padded.

    Raises:
        Refused: the intermediate size cannot be cut so that no scale of 32 weights is torn.

    """
    if intermediate % (32 * ranks):
        widths = ", ".join(str(one) for one in range(1, 17) if intermediate % (32 * one) == 0)
        raise Refused(
            f"parallel.tensor is {ranks}: {intermediate} neurons of an expert over {ranks} ranks tear the scales of 32 weights",
            hint=f"--set parallel.tensor to one of {widths}",
        )
    width = intermediate // ranks
    padded = math.ceil(width / padded_to) * padded_to
    share = Share(
        width=width, size=size * width // intermediate, padding=size * (padded - width) // intermediate
    )
    return (share,) * ranks


def whole(size: int, ranks: int) -> tuple[Share, ...]:
    """Cut experts of an unknown kind into like shares, or none at all where there are none."""
    return (Share(width=0, size=size // ranks, padding=0),) * ranks


def uneven(experts: Experts, bits: Sequence[LayerBits], ranks: int) -> tuple[Share, ...]:
    """Cut EXL3 experts in blocks of 128 neurons.

    A rank holds its part of the codes, and of the scale vectors (two bytes an element, one vector on either side of each matrix)
    its part on the side that is cut and all of the other.

    Raises:
        Refused: there are more ranks than blocks.

    """
    return tuple(
        Share(width=width, size=_exl3(experts, bits, width), padding=0)
        for width in widths(experts.intermediate, ranks)
    )


def in_blocks(size: int, intermediate: int, ranks: int) -> tuple[Share, ...]:
    """Cut experts of `size` bytes, as their files have them, in blocks of 128 neurons."""
    cut = widths(intermediate, ranks)
    return tuple(Share(width=width, size=size * width // intermediate, padding=0) for width in cut)


def widths(intermediate: int, ranks: int) -> tuple[int, ...]:
    """Return the neurons of an expert on each rank, in blocks of 128.

    Raises:
        Refused: there are more ranks than blocks.

    """
    blocks = intermediate // BLOCK
    if ranks > blocks or intermediate % BLOCK:
        raise Refused(
            f"parallel.tensor is {ranks}: {intermediate} neurons of an expert are {blocks} blocks of {BLOCK}, one a rank at least",
            hint=f"--set parallel.tensor to at most {blocks}",
        )
    ends = [round(blocks * at / ranks) * BLOCK for at in range(ranks + 1)]
    return tuple(high - low for low, high in pairwise(ends))


def _exl3(experts: Experts, bits: Sequence[LayerBits], width: int) -> int:
    matrix = experts.hidden * width
    scales = 3 * (experts.hidden + width) * 2
    return experts.routed * sum(
        one.layers * ((2 * one.gate_up + one.down) * matrix // 8 + scales) for one in bits
    )


def _size(row: Row, formats: Mapping[str, Format]) -> int:
    stored = formats[row.format]
    size = math.prod(row.shape) * stored.bits // 8
    if stored.tile:
        size += math.prod(math.ceil(side / tile) for side, tile in zip(row.shape, stored.tile, strict=True))
    return size * row.count


def _sum(found: Sequence[Tensors]) -> int:
    return sum(one.size for one in found)
