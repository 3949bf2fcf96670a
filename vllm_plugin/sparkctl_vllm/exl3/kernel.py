"""The CUDA kernel of EXL3 experts: builds cuda/exl3.cu for the device that is there and calls it on torch tensors."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from sparkctl_vllm import native
from sparkctl_vllm.exl3 import kernel_pack
from sparkctl_vllm.exl3.kernel_experts import RATES
from sparkctl_vllm.exl3.kernel_operands import OPERANDS, Shape, check
from sparkctl_vllm.exl3.kernel_pack import Packed
from sparkctl_vllm.exl3.matrix import BLOCK
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.step import MOST_TOP_K, Priced, Rows

SOURCE = native.SOURCE.with_name("exl3.cu")
HIDDEN = (5120,)
SLICES = 8
"""Warps that share the inputs of gate, or of up: a warp's slice of the hidden channels has room for as many neurons."""
STATIC = 1024
"""Bytes of shared memory beside what is asked for."""
SIZES = {"90": (), "121": ("-DEXL3_ROWS=2",)}
"""Rows of an expert at once: GB10 has 99 KB of shared memory a block, room for two rows of x in both turns."""


def build(architecture: str) -> Path:
    """Compile the kernel for sm_`architecture` and return the library; a kept one is returned as it is."""
    return native.build(architecture, SOURCE, SIZES.get(architecture, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What the layers of one stream share: what thread blocks hand on, twice, the count of arrivals, and what was planned last."""

    space: torch.Tensor
    meet: torch.Tensor
    told: torch.Tensor

    @classmethod
    def of(cls, shape: Shape, size: int, device: torch.device) -> "Workspace":
        """Reserve it, before a graph is captured; `size` is in floats."""
        return cls(
            space=torch.full((2, size), native.MISSING, dtype=torch.int32, device=device),
            meet=torch.zeros(1, dtype=torch.int64, device=device),
            told=torch.zeros(2, shape.experts, dtype=torch.int32, device=device),
        )


class Kernel:
    """The kernel for one shape: called with device tensors, inside or outside a graph; never waits for the device."""

    def __init__(self, shape: Shape, device: torch.device, overlap: bool = True) -> None:  # noqa: FBT001, FBT002
        self.shape = shape
        self.overlap = overlap
        major, minor = torch.cuda.get_device_capability(device)
        self._library = ctypes.CDLL(str(build(f"{major}{minor}")))
        properties = torch.cuda.get_device_properties(device)
        most = int(getattr(properties, "shared_memory_per_block_optin", 101_376)) - STATIC
        shared = self._library.exl3_shared(shape.rows, shape.top_k, shape.tiles, shape.hidden)
        why = obstacle(shape, shared, most)
        demand(not why, "shape", shape, "one that the EXL3 kernel takes", why)
        self.blocks = properties.multi_processor_count
        size = self._library.exl3_space(shape.rows, shape.top_k, shape.tiles, shape.hidden, self.blocks)
        self.workspace = Workspace.of(shape, size, device)

    def __call__(
        self, weights: Packed, how: Priced, rows: Rows, valid: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """Read one layer into `out`, float32 [rows, hidden]; `valid` is one number on the device."""
        tensors = (how.importance, how.price, None, rows.x, rows.picks, rows.weights, valid, out)
        return self._launch(weights, dict(zip(OPERANDS, tensors, strict=True)), how.floor)

    def read_to(
        self, weights: Packed, depths: torch.Tensor, rows: Rows, valid: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """Read one layer to depths that are given, int32 [experts] in blocks, on the device: at least 1 of each expert that is picked."""
        tensors = (None, None, depths, rows.x, rows.picks, rows.weights, valid, out)
        return self._launch(weights, dict(zip(OPERANDS, tensors, strict=True)), 1)

    def _launch(
        self, weights: Packed, operands: Mapping[str, torch.Tensor | None], floor: int
    ) -> torch.Tensor:
        shape, space = self.shape, self.workspace
        given = {name: one for name, one in operands.items() if one is not None}
        check(shape, weights, given)
        (gate, up, down), suh, svh = weights.pieces, weights.suh, weights.svh
        pointers = (
            *(gate, up, down, suh[0], suh[1], svh[0], svh[1], suh[2], svh[2]),
            *(operands[name] for name in OPERANDS if name != "out"),
            *(space.space, given["out"], space.meet, space.told),
        )
        stream = torch.cuda.current_stream(given["x"].device).cuda_stream
        code = self._library.exl3_read(
            *(ctypes.c_void_p(None if one is None else one.data_ptr()) for one in pointers),
            *(shape.rows, shape.top_k, shape.experts, shape.tiles, floor, shape.hidden, *shape.bits),
            *(ctypes.c_float(shape.limit), int(shape.exact), self.blocks, int(self.overlap)),
            ctypes.c_void_p(stream),
        )
        demand(code == 0, "EXL3 kernel", f"CUDA error {code}", "a clean launch")
        return given["out"]

    def numbers(self, pieces: torch.Tensor, bits: int) -> torch.Tensor:
        """Return the float16 numbers that the exact products see, [pieces, 4, 32 lanes, 32 positions]."""
        count = pieces.numel() // (bits * kernel_pack.STEP * 2)
        out = torch.empty(count, 4, 32, 32, dtype=torch.float16, device=pieces.device)
        stream = ctypes.c_void_p(torch.cuda.current_stream(pieces.device).cuda_stream)
        code = self._library.exl3_decode(
            ctypes.c_void_p(pieces.data_ptr()), count, bits, ctypes.c_void_p(out.data_ptr()), stream
        )
        demand(code == 0, "EXL3 kernel", f"CUDA error {code}", "a clean launch")
        return out


def obstacle(shape: Shape, shared: int, most_shared: int) -> str:
    """Return why a shape cannot be taken by the kernel, or nothing."""
    places = shape.rows * shape.top_k
    most_tiles = shape.hidden // SLICES // BLOCK
    limits = (
        (
            shape.hidden in HIDDEN,
            f"hidden {shape.hidden} is not compiled, only {', '.join(map(str, HIDDEN))}",
        ),
        (
            all(one in RATES for one in shape.bits),
            f"rates {shape.bits} of gate, up and down are not among {', '.join(map(str, RATES))} bits: no other is compiled",
        ),
        (shape.top_k <= MOST_TOP_K, f"top-k {shape.top_k} is more than the {MOST_TOP_K} that are compiled"),
        (
            places <= native.MOST,
            f"{shape.rows} rows of {shape.top_k} picks are more than {native.MOST} threads",
        ),
        (shape.experts <= native.MOST, f"{shape.experts} experts are more than {native.MOST} threads"),
        (
            1 <= shape.tiles <= most_tiles,
            f"{shape.tiles} blocks of 128 neurons: a warp has room for 1 to {most_tiles}, so share experts among more ranks",
        ),
        (shared <= most_shared, f"{shared} bytes of shared memory are more than {most_shared}"),
    )
    return next((why for fits, why in limits if not fits), "")
