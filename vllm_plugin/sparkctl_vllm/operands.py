"""Operands: what one layer's read is called with, held against the sizes that its kernel was made for.

Looks at shapes, types, strides and devices only, never at the device's memory, so it may stand inside a graph's capture. What the numbers
must be, `step.py` says.
"""

from dataclasses import dataclass, fields

import torch

from sparkctl_vllm.refusal import demand
from sparkctl_vllm.step import Priced, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows, picks of a row, experts, tiles and hidden channels, and how an expert's tile is packed: its type, and how many of it."""

    rows: int
    top_k: int
    experts: int
    tiles: int
    hidden: int
    packed: torch.dtype
    of_a_tile: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """The tensors of one layer, as every kernel takes them; depths in the place of importance and price where they are given."""

    pack: torch.Tensor
    importance: torch.Tensor | None = None
    price: torch.Tensor | None = None
    depths: torch.Tensor | None = None
    x: torch.Tensor
    picks: torch.Tensor
    weights: torch.Tensor
    valid: torch.Tensor
    out: torch.Tensor

    @classmethod
    def of(
        cls,
        pack: torch.Tensor,
        how: Priced | torch.Tensor,
        rows: Rows,
        valid: torch.Tensor,
        out: torch.Tensor,
    ) -> "Operands":
        """Gather them from what a kernel is called with; a tensor in the place of a reading is the depths themselves."""
        by = (
            {"depths": how}
            if isinstance(how, torch.Tensor)
            else {"importance": how.importance, "price": how.price}
        )
        return cls(pack=pack, **by, x=rows.x, picks=rows.picks, weights=rows.weights, valid=valid, out=out)

    def checked(self, sizes: Sizes) -> None:
        """Refuse the first that does not fit, by its name: a kernel would read or write beside it."""
        rows, hidden = sizes.rows, sizes.hidden
        wanted = {
            "pack": (sizes.packed, (sizes.experts, sizes.tiles, sizes.of_a_tile)),
            "importance": (torch.float32, (sizes.tiles, sizes.experts)),
            "price": (torch.float32, (1,)),
            "depths": (torch.int32, (sizes.experts,)),
            "x": (torch.bfloat16, (rows, hidden)),
            "picks": (torch.int32, (rows, sizes.top_k)),
            "weights": (torch.float32, (rows, sizes.top_k)),
            "valid": (torch.int32, (1,)),
            "out": (torch.float32, (rows, hidden)),
        }
        for one in fields(self):
            tensor, (dtype, shape) = getattr(self, one.name), wanted[one.name]
            if tensor is not None:
                fits(one.name, tensor, dtype, shape, self.x.device)


def fits(
    name: str, tensor: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...], device: torch.device
) -> None:
    """Refuse a tensor of another type, shape or device, or one with gaps, by its name."""
    demand(tensor.dtype == dtype, name, tensor.dtype, f"{dtype} for this shape")
    demand(tuple(tensor.shape) == shape, name, tuple(tensor.shape), f"{shape}, what the kernel was made for")
    demand(tensor.is_contiguous(), name, f"strides {tensor.stride()}", "contiguous")
    demand(tensor.device == device, name, tensor.device, f"{device}, where x is")
