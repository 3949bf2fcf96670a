"""What the EXL3 kernel is made for and called with, held against each other by name: shapes, types, strides and devices, never the numbers.

The device's memory is not read, so this may stand inside a graph's capture; what the numbers must be, `step.py` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from sparkctl_vllm.exl3.kernel_experts import Exl3Experts
from sparkctl_vllm.exl3.kernel_pack import STEP, Packed
from sparkctl_vllm.exl3.matrix import BLOCK
from sparkctl_vllm.refusal import demand

OPERANDS = ("importance", "price", "depths", "x", "picks", "router weights", "valid", "out")
"""In the order in which the kernel takes them: depths are in the place of importance and price, or these in the place of depths."""
MATRICES = ("gate", "up", "down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a graph is captured for; `tiles` are blocks of 128 neurons on this rank, `bits` those of gate, up and down."""

    rows: int
    top_k: int
    experts: int
    tiles: int
    hidden: int
    limit: float
    bits: tuple[int, int, int]
    exact: bool = False
    """Weights to float16's last bit: 1.4 times as long at 3 bits and 64 rows on an H200; else they are not rounded to float16 at all."""

    @classmethod
    def of(cls, experts: Exl3Experts, *, rows: int, top_k: int, exact: bool = False) -> "Shape":
        """Return the shape for these experts."""
        count, _, hidden = experts.gate.shape
        return cls(
            rows=rows,
            top_k=top_k,
            experts=count,
            tiles=experts.tiles,
            hidden=hidden,
            limit=experts.limit,
            bits=experts.bits,
            exact=exact,
        )


def check(shape: Shape, weights: Packed, operands: Mapping[str, torch.Tensor]) -> None:
    """Refuse the first tensor that does not fit, by its name: the kernel would read or write beside it."""
    here = operands["x"].device
    for name, (tensor, dtype, size) in _wanted(shape, weights, operands).items():
        demand(tensor.dtype == dtype, name, tensor.dtype, str(dtype))
        demand(
            tuple(tensor.shape) == size, name, tuple(tensor.shape), f"{size}, what the kernel was made for"
        )
        demand(tensor.is_contiguous(), name, f"strides {tensor.stride()}", "contiguous")
        demand(tensor.device == here, name, tensor.device, f"{here}, where x is")


def _wanted(
    shape: Shape, weights: Packed, operands: Mapping[str, torch.Tensor]
) -> dict[str, tuple[torch.Tensor, torch.dtype, tuple[int, ...]]]:
    neurons, hidden, count = shape.tiles * BLOCK, shape.hidden, shape.experts
    wanted: dict[str, tuple[torch.Tensor, torch.dtype, tuple[int, ...]]] = {}
    for which, name in enumerate(MATRICES):
        inputs, outputs = (neurons, hidden) if name == "down" else (hidden, neurons)
        size = (count, outputs // BLOCK, inputs // STEP, 2, shape.bits[which], 32, 4)
        wanted[f"{name} pieces"] = (weights.pieces[which], torch.int32, size)
        wanted[f"{name} suh"] = (weights.suh[which], torch.float16, (count, inputs))
        wanted[f"{name} svh"] = (weights.svh[which], torch.float16, (count, outputs))
    rows, picks = shape.rows, (shape.rows, shape.top_k)
    sizes: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
        "importance": (torch.float32, (shape.tiles, count)),
        "price": (torch.float32, (1,)),
        "depths": (torch.int32, (count,)),
        "x": (torch.bfloat16, (rows, hidden)),
        "picks": (torch.int32, picks),
        "router weights": (torch.float32, picks),
        "valid": (torch.int32, (1,)),
        "out": (torch.float32, (rows, hidden)),
    }
    return wanted | {name: (one, *sizes[name]) for name, one in operands.items()}
