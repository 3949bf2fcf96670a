"""Kernel reader: a layer's experts on a GPU, packed once as the kernels read them, and read by the kernel of as many rows as a step has.

A read never waits for the device, so it may stand in a captured graph. Layers of one shape share kernels and what these reserve.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

import torch

from sparkctl_vllm import native, path
from sparkctl_vllm.exl3 import kernel as exl3_kernel
from sparkctl_vllm.exl3 import kernel_operands, kernel_pack
from sparkctl_vllm.experts import Experts, Matrix
from sparkctl_vllm.prefill import OUTPUTS, Layout, Prefill
from sparkctl_vllm.serving import exl3_slices, weights
from sparkctl_vllm.serving.reader import Held, limit
from sparkctl_vllm.step import Rows

SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64)
"""Rows for which there is a kernel of its own; a step of other rows is filled up. Those that vLLM captures graphs for, up to 64."""
PREFILL_ROWS = 1024
"""Rows of a prefill that are read at a time. Ours: every part reads the experts again, and 1024 rows reserve 49 MB (prefill.py)."""
PACKED_AT_ONCE = 8
"""Experts that are packed at once. Ours: packing takes a multiple of their bytes while it lasts, each code as an int32."""


class Kernel(Protocol):
    """A kernel of one shape."""

    def read_to(
        self, pack: Any, depths: torch.Tensor, rows: Rows, valid: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """Read one layer to depths."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A layer as it is read: its pack, the kernels by their rows, and what it holds; prefill where there is one for this pack."""

    pack: Any
    kernels: Mapping[int, Kernel]
    held: Held
    prefill: Prefill | None = None


class KernelReader:
    """One layer; `load` takes the experts out of vLLM's layer, for so many rows and picks of a row."""

    held: Held

    def __init__(self, load: Callable[[Any, torch.Tensor | None, int], Loaded]) -> None:
        self.load = load

    def take(self, layer: Any, order: torch.Tensor | None, most_rows: int) -> None:
        """Take and pack."""
        self.loaded = self.load(layer, order, most_rows)
        self.held = self.loaded.held
        device = layer_device(self.loaded.pack)
        self.whole = torch.full((self.held.experts,), self.held.tiles, dtype=torch.int32, device=device)
        self.all_live = torch.full((1,), max(self.loaded.kernels), dtype=torch.int32, device=device)

    def read(self, asked: Rows, depths: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """Read to depths, by the smallest kernel that has room; what is filled up picks nobody."""
        count = len(asked.x)
        size = next(size for size in self.loaded.kernels if size >= count)
        rows = asked if size == count else asked.filled(size)
        out = torch.empty(rows.x.shape, dtype=torch.float32, device=rows.x.device)
        return self.loaded.kernels[size].read_to(self.loaded.pack, depths, rows, live, out)[:count]

    def read_whole(self, asked: Rows) -> torch.Tensor:
        """Read all tiles: of many rows by the kernel for them, or where this pack has none in parts, each of which reads the experts anew."""
        most, prefill = max(self.loaded.kernels), self.loaded.prefill
        if prefill is not None and len(asked.x) > most:
            out = torch.empty(asked.x.shape, dtype=torch.float32, device=asked.x.device)
            return prefill(self.loaded.pack, asked, out)
        parts = [
            self.read(asked.part(begin, most), self.whole, self.all_live)
            for begin in range(0, len(asked.x), most)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def sizes(most_rows: int) -> tuple[int, ...]:
    """Return for how many rows kernels are made, rising: the last has room for `most_rows`."""
    return (*(size for size in SIZES if size < most_rows), most_rows)


def plain_loaded(layer: Any, order: torch.Tensor | None, most_rows: int) -> Loaded:
    """Return a layer of bf16 or MXFP4, sorted and packed for the kernel of its shape: CUDA C++ where it can, else Triton."""
    experts = weights.taken(layer, order, limit(layer))
    count, _, hidden = experts.gate.shape
    shape = native.Shape(
        rows=most_rows, top_k=layer.top_k, experts=count, tiles=experts.tiles, hidden=hidden, limit=experts.limit,
        mxfp4=experts.gate.scales is not None,
    )  # fmt: skip
    device = experts.gate.codes.device
    kernels = _plain_kernels(shape, device)
    largest = kernels[most_rows]
    layout = Layout.FRAGMENTS if isinstance(largest, native.Kernel) else Layout.ROWS
    return Loaded(
        pack=_packed(largest.packed, experts),
        kernels=kernels,
        held=Held.of(experts),
        prefill=_prefill(replace(shape, rows=PREFILL_ROWS), layout, device),
    )


def coded_loaded(layer: Any, order: torch.Tensor | None, most_rows: int) -> Loaded:
    """Return a layer of EXL3, packed for its kernel."""
    assert order is None  # noqa: S101 - binding refuses a plan that is not applied
    experts = exl3_slices.taken(layer, limit(layer))
    shape = kernel_operands.Shape.of(experts, rows=most_rows, top_k=layer.top_k)
    kernels = _coded_kernels(shape, experts.gate.trellis.device)
    return Loaded(pack=kernel_pack.packed(experts), kernels=kernels, held=Held.of(experts))


def layer_device(pack: Any) -> torch.device:
    """Return where a pack lies."""
    return pack.device if isinstance(pack, torch.Tensor) else pack.pieces[0].device


@cache
def _plain_kernels(shape: native.Shape, device: torch.device) -> Mapping[int, Any]:
    largest = path.kernel_for(shape, device)
    kind = type(largest)
    return {
        rows: largest if rows == shape.rows else kind(replace(shape, rows=rows), device)
        for rows in sizes(shape.rows)
    }


@cache
def _prefill(shape: native.Shape, layout: Layout, device: torch.device) -> Prefill | None:
    """Return what reads many rows of a pack: nothing reads MXFP4 that no clamp bounds, nor hidden sizes that are no multiple of 128."""
    bounded = math.isfinite(shape.limit) or not shape.mxfp4
    return Prefill(shape, layout, device) if bounded and shape.hidden % OUTPUTS == 0 else None


@cache
def _coded_kernels(shape: kernel_operands.Shape, device: torch.device) -> Mapping[int, Any]:
    return {rows: exl3_kernel.Kernel(replace(shape, rows=rows), device) for rows in sizes(shape.rows)}


def _packed(packing: Callable[[Experts], torch.Tensor], experts: Experts) -> torch.Tensor:
    """Pack some experts at a time, so that no more than that stands unpacked beside the layer."""
    count = experts.gate.shape[0]
    parts = (
        packing(_some(experts, begin, min(begin + PACKED_AT_ONCE, count)))
        for begin in range(0, count, PACKED_AT_ONCE)
    )
    first = next(parts)
    pack = torch.empty((count, *first.shape[1:]), dtype=first.dtype, device=first.device)
    done = 0
    for part in (first, *parts):
        pack[done : done + len(part)] = part
        done += len(part)
    return pack


def _some(experts: Experts, begin: int, end: int) -> Experts:
    def cut(one: Matrix) -> Matrix:
        return Matrix(
            codes=one.codes[begin:end], scales=None if one.scales is None else one.scales[begin:end]
        )

    return Experts(gate=cut(experts.gate), up=cut(experts.up), down=cut(experts.down), limit=experts.limit)
