"""Experts of one layer on one rank: gate, up and down weights as the checkpoint holds them, in MXFP4 or bf16, neurons sorted or not."""

from dataclasses import dataclass, replace

import torch

from sparkctl_vllm import mxfp4
from sparkctl_vllm.refusal import demand

TILE = 64
"""Neurons that are read or skipped together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """One weight of all experts, [experts, out, in]: bf16 numbers, or MXFP4 codes [experts, out, in/2] with scales [experts, out, in/32]."""

    codes: torch.Tensor
    scales: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Experts, outputs, inputs."""
        experts, out, width = self.codes.shape
        return experts, out, width if self.scales is None else width * 2

    def numbers(self, expert: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return one expert's weight, [out, in]."""
        if self.scales is None:
            return self.codes[expert].to(dtype)
        return mxfp4.dequantised(self.codes[expert], self.scales[expert], dtype)

    def columns(self, order: torch.Tensor) -> "Matrix":
        """Return the weight with its inputs in another order, [experts, in] of old places; MXFP4 is quantised anew, an expert at a time."""
        if self.scales is None:
            return Matrix(codes=moved(self.codes, order, 1))
        codes, scales = torch.empty_like(self.codes), torch.empty_like(self.scales)
        for expert in range(self.shape[0]):
            codes[expert], scales[expert] = mxfp4.quantised(self.numbers(expert)[:, order[expert]])
        return Matrix(codes=codes, scales=scales)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """w1 (gate) and w3 (up) are [experts, neurons, hidden], w2 (down) is [experts, hidden, neurons]; |up| and gate are clamped at `limit`."""

    gate: Matrix
    up: Matrix
    down: Matrix
    limit: float

    def __post_init__(self) -> None:
        """Refuse shapes, types and numbers that do not fit together."""
        experts, neurons, hidden = self.gate.shape
        demand(self.up.shape == self.gate.shape, "w3", self.up.shape, f"the shape of w1, {self.gate.shape}")
        demand(
            self.down.shape == (experts, hidden, neurons),
            "w2",
            self.down.shape,
            f"({experts}, {hidden}, {neurons})",
        )
        demand(experts > 0, "experts", experts, "at least one")
        demand(neurons > 0 and neurons % TILE == 0, "neurons of an expert", neurons, f"a multiple of {TILE}")
        demand(
            hidden > 0 and hidden % mxfp4.GROUP == 0, "hidden size", hidden, f"a multiple of {mxfp4.GROUP}"
        )
        demand(self.limit > 0, "limit", self.limit, "more than 0; infinite for none")
        for name, one in (("w1", self.gate), ("w3", self.up), ("w2", self.down)):
            _sound(name, one)

    @property
    def tiles(self) -> int:
        """Tiles of a whole expert."""
        return self.gate.shape[1] // TILE

    @property
    def tile_bytes(self) -> int:
        """Bytes of one tile: 64 rows of gate and of up, 64 columns of down."""
        whole = sum(one.codes[0].numel() * one.codes.element_size() for one in self.matrices)
        whole += sum(one.scales[0].numel() for one in self.matrices if one.scales is not None)
        return int(whole // self.tiles)

    @property
    def matrices(self) -> tuple[Matrix, Matrix, Matrix]:
        """Gate, up, down."""
        return self.gate, self.up, self.down

    def sorted(self, order: torch.Tensor) -> "Experts":
        """Return the experts with their neurons in another order, [experts, neurons] of old places.

        Rows of gate and up move with their scales. Columns of an MXFP4 down weight leave their groups of 32, so it is quantised anew:
        that costs accuracy, which `regrouped_error` measures.
        """
        gate, up = (
            Matrix(
                codes=moved(one.codes, order, 0),
                scales=None if one.scales is None else moved(one.scales, order, 0),
            )
            for one in (self.gate, self.up)
        )
        return replace(self, gate=gate, up=up, down=self.down.columns(order))

    def regrouped_error(self, order: torch.Tensor) -> float:
        """Return the relative error that sorting adds to the down weight (0 for bf16), over all experts."""
        after = self.sorted(order)
        off, size = 0.0, 0.0
        for expert in range(self.down.shape[0]):
            kept = self.down.numbers(expert, torch.float64)[:, order[expert]]
            off += float((after.down.numbers(expert, torch.float64) - kept).square().sum())
            size += float(kept.square().sum())
        return float((off / size) ** 0.5) if size else 0.0


def quantised(gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, limit: float) -> Experts:
    """Return MXFP4 experts from numbers."""
    made = [Matrix(codes=codes, scales=scales) for codes, scales in map(mxfp4.quantised, (gate, up, down))]
    return Experts(gate=made[0], up=made[1], down=made[2], limit=limit)


def _sound(name: str, one: Matrix) -> None:
    demand(one.codes.is_contiguous(), name, f"strides {one.codes.stride()}", "contiguous")
    if one.scales is None:
        demand(
            one.codes.dtype == torch.bfloat16, name, one.codes.dtype, "bfloat16, or uint8 codes with scales"
        )
        # An expert at a time: what this makes on its way is as large as what it looks at.
        finite = all(bool(torch.isfinite(numbers).all()) for numbers in one.codes)
        demand(finite, name, "NaN or infinite", "finite weights")
        return
    demand(
        one.codes.dtype == torch.uint8 and one.scales.dtype == torch.uint8,
        name,
        one.codes.dtype,
        "uint8 codes and scales",
    )
    demand(one.scales.is_contiguous(), f"{name} scales", f"strides {one.scales.stride()}", "contiguous")
    experts, out, width = one.shape
    wanted = (experts, out, width // mxfp4.GROUP)
    demand(tuple(one.scales.shape) == wanted, f"{name} scales", tuple(one.scales.shape), str(wanted))
    demand(not bool((one.scales == 255).any()), f"{name} scales", "255, which means NaN", "0 to 254")


def moved(numbers: torch.Tensor, order: torch.Tensor, dimension: int) -> torch.Tensor:
    """Return each expert's numbers in its own order of old places, along a dimension of the expert.

    An expert at a time: a gather over all of them would hold the order of every single number beside them.
    """
    answer = torch.empty(numbers.shape, dtype=numbers.dtype, device=numbers.device)
    for expert, places in enumerate(order):
        torch.index_select(numbers[expert], dimension, places, out=answer[expert])
    return answer
