"""Prefill: all tiles of the experts that many rows pick, read from the same packed weights as decode; a node has no memory for a second copy.

The arithmetic is that of decode: clamped SwiGLU, router weight and prescale in h, which is float16 (bf16 without a clamp), and float32 sums. Rows are sorted by
expert on the device and taken in blocks of one expert, so its weights are read and decoded once a block; nothing waits for the device.
"""

import math
from dataclasses import dataclass
from enum import IntEnum

import torch
import triton

from sparkctl_vllm import prefill_kernels
from sparkctl_vllm.experts import TILE
from sparkctl_vllm.native import Shape, prescale
from sparkctl_vllm.operands import fits
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.step import MOST_TOP_K, Rows
from sparkctl_vllm.tiles import WARPS
from sparkctl_vllm.triton_experts import OPERAND, h_of

OUTPUTS = 128
"""Outputs that a program of down takes; hidden is a multiple of it."""
SLAB = 1280
"""Outputs of a pass over down, whose parts are summed before the next pass. Ours: 1024 rows' parts fit an H200's L2."""
WIDTH = 1024
"""Outputs that a program of the sum takes."""
BLOCKS = (16, 32, 64, 128)
"""Rows of one expert that may be taken together."""
ROOM = 1.5
"""A block has room for that many times an expert's mean rows, up to the largest. Ours: a second block decodes the weights again."""


class Layout(IntEnum):
    """How the weights are packed: for the CUDA kernel or for Triton; the numbers are those of prefill_kernels."""

    FRAGMENTS = 0
    ROWS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Rows of a block; warps, stages and the most registers of a thread, of gate/up and down."""

    block: int
    warps: int
    stages: int
    registers: int

    @classmethod
    def of(cls, picks: int, experts: int) -> "Launch":
        """Return how a part with so many picks is launched."""
        block = next((one for one in BLOCKS if one * experts >= ROOM * picks), BLOCKS[-1])
        return cls(
            block=block, warps=4, stages=3, registers=168 if block <= 64 else 255
        )  # three blocks an SM, or two

    def most(self, picks: int, experts: int) -> int:
        """Return the most blocks that so many picks can fall into."""
        return (picks + min(picks, experts) * (self.block - 1)) // self.block


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Picks in the order of their experts, cut into blocks of one expert each; int32 on the device but for `order`, int64 [picks]."""

    whose: torch.Tensor
    """Each block's expert, [blocks]; the number of experts beyond the last block."""
    edges: torch.Tensor
    """Where each expert's picks begin in the order, [experts + 1]; behind them lie those of other ranks."""
    ends: torch.Tensor
    """Blocks up to each expert's last, [experts]."""
    order: torch.Tensor

    @classmethod
    def of(cls, picks: torch.Tensor, experts: int, launch: Launch, count: torch.Tensor) -> "Blocks":
        """Sort picks int32 [rows, top-k]; `count` is 0, 1, 2 ..., int32, as many as experts or blocks at least."""
        flat = picks.flatten()
        known = torch.where((flat >= 0) & (flat < experts), flat, experts)
        ranked, order = known.sort(stable=True)
        edges = torch.searchsorted(ranked, count[: experts + 1], out_int32=True)
        ends = ((edges.diff() + (launch.block - 1)) // launch.block).cumsum(0, dtype=torch.int32)
        most = launch.most(flat.numel(), experts)
        whose = torch.searchsorted(ends, count[:most], right=True, out_int32=True)
        return cls(whose=whose, edges=edges, ends=ends, order=order)


class Prefill:
    """A read of all tiles for one kind of layer; `shape.rows` is the most rows at a time, more are done in parts of that many.

    Reserves rows * top_k * (2 * 64 * tiles + 4 * min(hidden, 1280)) bytes, and for fragments rows * 2 * hidden: 49 MB for 1024 rows of top-6
    with 9 tiles and hidden 5120.
    Parts of a pick are float32, and kept for 1280 outputs at a time; all of them would be 126 MB, and would leave the L2. Each part of
    rows reads the weights again. `launch` is for measuring; without it, it follows from the rows of a part.
    """

    def __init__(
        self, shape: Shape, layout: Layout, device: torch.device, launch: Launch | None = None
    ) -> None:
        wanted = WARPS * 64 if layout is Layout.FRAGMENTS else OUTPUTS
        demand(shape.hidden % wanted == 0, "hidden size", shape.hidden, f"a multiple of {wanted}")
        demand(1 <= shape.top_k <= MOST_TOP_K, "top-k", shape.top_k, f"1 to {MOST_TOP_K}")
        demand(shape.rows > 0, "rows at a time", shape.rows, "at least one")
        packed = shape.mxfp4 or layout is Layout.ROWS
        demand(packed, "weights", "bf16 in fragments", "MXFP4, or bf16 in rows")
        self.shape, self._launch = shape, launch
        bounded = math.isfinite(shape.limit)
        demand(
            bounded or not shape.mxfp4, "limit", shape.limit, "a clamp: MXFP4 is multiplied with h in float16"
        )
        self.prescale = prescale(shape.limit) if bounded else 1.0
        self._format = int(layout) if shape.mxfp4 else 2
        self._slab = min(SLAB, shape.hidden)
        picks = shape.rows * shape.top_k
        self.h = torch.zeros(picks, shape.tiles * TILE, dtype=h_of(shape.limit), device=device)
        self.parts = torch.zeros(picks, self._slab, dtype=torch.float32, device=device)
        kept = shape.rows if self._format == Layout.FRAGMENTS else 0
        self.x = torch.zeros(kept, shape.hidden, dtype=torch.bfloat16, device=device)
        self._count = torch.arange(picks + shape.experts + 1, dtype=torch.int32, device=device)

    def __call__(self, pack: torch.Tensor, asked: Rows, out: torch.Tensor) -> torch.Tensor:
        """Read one layer into `out`, float32 or bfloat16 [rows, hidden], and return it.

        A pick that is negative, or not below the number of experts, is another rank's and adds nothing.
        """
        self._checked(pack, asked, out)
        most = self.shape.rows
        for begin in range(0, len(asked.x), most):
            self._part(pack, asked.part(begin, most), out[begin : begin + most])
        return out

    def _checked(self, pack: torch.Tensor, asked: Rows, out: torch.Tensor) -> None:
        shape, rows = self.shape.sizes, len(asked.x)
        demand(
            out.dtype in {torch.float32, torch.bfloat16}, "out", out.dtype, "torch.float32 or torch.bfloat16"
        )
        wanted = (
            ("pack", pack, shape.packed, (shape.experts, shape.tiles, shape.of_a_tile)),
            ("x", asked.x, torch.bfloat16, (rows, shape.hidden)),
            ("picks", asked.picks, torch.int32, (rows, shape.top_k)),
            ("weights", asked.weights, torch.float32, (rows, shape.top_k)),
            ("out", out, out.dtype, (rows, shape.hidden)),
        )
        for name, tensor, dtype, sizes in wanted:
            fits(name, tensor, dtype, sizes, self.h.device)

    def _part(self, pack: torch.Tensor, asked: Rows, out: torch.Tensor) -> None:
        """Read one part of the rows."""
        shape, x, picks, weights = self.shape, asked.x, asked.picks, asked.weights
        launch = self._launch or Launch.of(picks.numel(), shape.experts)
        blocks = Blocks.of(picks, shape.experts, launch, self._count)
        tables = (blocks.whose, blocks.edges, blocks.ends, blocks.order)
        words = pack.view(torch.int32) if shape.mxfp4 else pack
        if self._format == Layout.FRAGMENTS:
            x = ordered(x, self.x[: x.shape[0]])
        most = len(blocks.whose)
        how = {"num_warps": launch.warps, "num_stages": launch.stages, "maxnreg": launch.registers}
        prefill_kernels.gate_up[shape.tiles, most](
            words, pack, x, weights, *tables, self.h, shape.experts, shape.tiles, shape.limit, self.prescale,
            TOP_K=shape.top_k, HIDDEN=shape.hidden, BLOCK=launch.block, FORMAT=self._format, OPERAND=OPERAND, **how,
        )  # fmt: skip
        for begin in range(0, shape.hidden, self._slab):
            width = min(self._slab, shape.hidden - begin)
            prefill_kernels.down[width // OUTPUTS, most](
                words, pack, self.h, *tables, self.parts, shape.experts, shape.tiles, self.prescale, begin,
                HIDDEN=shape.hidden, SLAB=self._slab, BLOCK=launch.block, FORMAT=self._format, **how,
            )  # fmt: skip
            prefill_kernels.summed[x.shape[0], triton.cdiv(width, WIDTH)](
                picks, self.parts, out, shape.experts, begin,
                TOP_K=shape.top_k, HIDDEN=shape.hidden, SLAB=self._slab, WIDTH=WIDTH,
            )  # fmt: skip


def ordered(x: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
    """Return x bfloat16 [rows, hidden] with its channels as the threads of a tensor core hold those of `tiles.fragments`.

    Of each 64, channel 32 group + 8 q + 4 half + 2 pair + parity goes to 32 group + 16 half + 8 pair + 2 q + parity.
    """
    two = x.view(torch.int32).unflatten(1, (-1, 2, 4, 2, 2))  # both parities in one number
    into.view(torch.int32).unflatten(1, (-1, 2, 2, 2, 4)).copy_(two.permute(0, 1, 2, 4, 5, 3))
    return into
