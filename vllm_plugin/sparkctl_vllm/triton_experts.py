"""The portable path: budget reads in Triton, for devices and sizes that the CUDA kernel does not take; never waits for the device."""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from sparkctl_vllm import tiles, triton_kernels
from sparkctl_vllm.experts import TILE, Experts
from sparkctl_vllm.native import Shape, prescale
from sparkctl_vllm.operands import Operands
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.step import MOST_TOP_K, Priced, Rows

BLOCK_K, BLOCK_N, BLOCK_SUM = 128, 128, 1024
"""Hidden channels, outputs of down and outputs of the sum that a program takes at once. Ours: portable sizes, not tuned for a device."""

OPERAND = tl.float32 if triton.knobs.runtime.interpret else tl.bfloat16
"""Type in which gate and up are multiplied, exact in both: Triton's interpreter (3.9) multiplies the patterns of bf16 as integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What a layer's launches hand on: the plan, h, and what each pick adds to the output."""

    loads: torch.Tensor
    depths: torch.Tensor
    counts: torch.Tensor
    order: torch.Tensor
    h: torch.Tensor
    parts: torch.Tensor

    @classmethod
    def of(cls, shape: Shape, device: torch.device) -> "Workspace":
        """Reserve it, before a graph is captured."""
        places = shape.rows * shape.top_k

        def integers(*sizes: int) -> torch.Tensor:
            return torch.zeros(sizes, dtype=torch.int32, device=device)

        return cls(
            loads=integers(shape.experts),
            depths=integers(shape.experts),
            counts=integers(shape.experts),
            order=integers(shape.experts, shape.rows),
            h=torch.zeros(places, shape.tiles * TILE, dtype=h_of(shape.limit), device=device),
            parts=torch.zeros(places, shape.hidden, dtype=torch.float32, device=device),
        )


def h_of(limit: float) -> torch.dtype:
    """Return how h is kept: float16 where a clamp bounds it, else bf16, which has the range."""
    return torch.bfloat16 if math.isinf(limit) else torch.float16


class Kernel:
    """The Triton kernels for one shape; called as native.Kernel is, with weights from its own `packed`."""

    def __init__(self, shape: Shape, device: torch.device) -> None:
        demand(shape.hidden % BLOCK_K == 0, "hidden size", shape.hidden, f"a multiple of {BLOCK_K}")
        demand(1 <= shape.top_k <= MOST_TOP_K, "top-k", shape.top_k, f"1 to {MOST_TOP_K}")
        self.shape = shape
        self.prescale = 1.0 if math.isinf(shape.limit) else prescale(shape.limit)
        self.workspace = Workspace.of(shape, device)

    @staticmethod
    def packed(experts: Experts) -> torch.Tensor:
        """Return the weights as these kernels read them."""
        return tiles.rows(experts)

    def __call__(
        self, pack: torch.Tensor, how: Priced, rows: Rows, valid: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """Read one layer into `out`, float32 [rows, hidden]; `valid` is one number on the device."""
        given = Operands.of(pack, how, rows, valid, out)
        given.checked(self.shape.sizes)
        self.plan(how, rows, valid)
        return self._computed(given)

    def read_to(
        self, pack: torch.Tensor, depths: torch.Tensor, rows: Rows, valid: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """Read one layer to depths that are given, int32 [experts] in tiles: at least 1 of each expert that is picked."""
        given = Operands.of(pack, depths, rows, valid, out)
        given.checked(self.shape.sizes)
        self._plan(None, depths, rows, valid)
        return self._computed(given)

    def _computed(self, given: Operands) -> torch.Tensor:
        """Compute what was planned."""
        shape, space, pack = self.shape, self.workspace, given.pack
        count, rows, hidden, top_k = shape.experts, shape.rows, shape.hidden, shape.top_k
        half = OPERAND if math.isinf(shape.limit) else tl.float16
        triton_kernels.gate_up[count, shape.tiles](
            pack, given.x, given.weights, space.depths, space.counts, space.order, space.h,
            rows, shape.tiles, shape.limit, self.prescale,
            TOP_K=top_k, HIDDEN=hidden, BLOCK_K=BLOCK_K, OPERAND=OPERAND, BF16=not shape.mxfp4,
        )  # fmt: skip
        triton_kernels.down[count, triton.cdiv(hidden, BLOCK_N)](
            pack, space.h, space.depths, space.counts, space.order, space.parts,
            rows, shape.tiles, self.prescale,
            HIDDEN=hidden, BLOCK_N=BLOCK_N, HALF=half, BF16=not shape.mxfp4,
        )  # fmt: skip
        triton_kernels.summed[rows, triton.cdiv(hidden, BLOCK_SUM)](
            given.picks, given.valid, space.parts, given.out, count, TOP_K=top_k, HIDDEN=hidden, BLOCK_N=BLOCK_SUM
        )  # fmt: skip
        return given.out

    def plan(self, how: Priced, rows: Rows, valid: torch.Tensor) -> None:
        """Write loads, depths, counts and order of a step into the workspace."""
        self._plan(how, None, rows, valid)

    def _plan(self, how: Priced | None, depths: torch.Tensor | None, rows: Rows, valid: torch.Tensor) -> None:
        importance, price, floor = (how.importance, how.price, how.floor) if how else (None, None, 1)
        shape, space = self.shape, self.workspace
        triton_kernels.plan[(shape.experts,)](
            rows.picks, rows.weights, valid, importance, price, depths, space.loads, space.depths, space.counts, space.order,
            floor, shape.tiles, shape.rows, shape.experts,
            TOP_K=shape.top_k, PICKS=triton.next_power_of_2(shape.rows * shape.top_k),
            TILES=triton.next_power_of_2(shape.tiles), GIVEN=depths is not None,
        )  # fmt: skip
