"""Staging: a step's rows of one table to where the forward reads them, as work of a stream, inside a captured graph or outside of one.

In the stream's order: the GPU decodes resident rows to their places; the row ids go to the CPU; a host function asks for the rows that are
not resident; another waits for them; a kernel decodes them to their places out of pinned memory. The host never waits for the GPU, and the
GPU waits for the disk only where this stream is waited for: on a stream of its own, layer 14's rows come behind the layers before it.
"""

import ctypes
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from sparkctl_vllm.engram import triton_kernels as kernels
from sparkctl_vllm.engram.definition import ROW_VALUES
from sparkctl_vllm.engram.device_lookup import LOOKUPS, Resident
from sparkctl_vllm.engram.reader import Reader, library
from sparkctl_vllm.engram.row_format import BYTES
from sparkctl_vllm.engram.row_ids import Ids
from sparkctl_vllm.refusal import demand


class _Step(ctypes.Structure):
    """`Step` of native/rows.c."""

    _fields_ = (
        ("reader", ctypes.c_void_p),
        ("ids", ctypes.c_void_p),
        ("lookups", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("lines", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("given", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Buffers:
    """Where the CPU and the GPU meet, pinned: row ids in; rows, their places and how many of them out."""

    ids: torch.Tensor
    read: torch.Tensor
    places: torch.Tensor
    given: torch.Tensor

    @classmethod
    def of(cls, lookups: int, *, pinned: bool) -> "_Buffers":
        def made(*shape: int, dtype: torch.dtype) -> torch.Tensor:
            # The device is named: while vLLM makes a model, torch's own default is the GPU.
            return torch.zeros(*shape, dtype=dtype, device="cpu", pin_memory=pinned)

        return cls(
            ids=made(lookups, dtype=torch.int64),
            read=made(lookups, BYTES["fp8"], dtype=torch.uint8),
            places=made(lookups, dtype=torch.int32),
            given=made(1, dtype=torch.int32),
        )


class Staging:
    """One table's rows, for steps of up to so many lookups. One step at a time: the next begins behind the last in the streams' order."""

    def __init__(self, resident: Resident | None, reader: Reader, lookups: int, device: torch.device) -> None:
        """Take a raw reader; its lines are those of `resident`, or it has none, and then every row is read."""
        demand(reader.raw, "reader", "one that decodes", "a raw one: the GPU decodes")
        both = (reader.held is None) == (resident is None)
        demand(both, "resident rows", "with the reader or on the device alone", "the same with both")
        self.resident, self.reader, self.lookups, self.device = resident, reader, lookups, device
        self._buffers = _Buffers.of(lookups, pinned=device.type == "cuda")
        self._steps: dict[int, _Step] = {}
        self._launch = _launched if device.type == "cuda" else _called

    def stage(self, ids: torch.Tensor, staged: torch.Tensor) -> None:
        """Put a step's work on the current stream: `ids` int64 [lookups] from the rank's first row, negative for nobody's, to `staged` bfloat16 [lookups, 256]."""
        self.begin(ids, staged)
        self.finish(ids, staged)

    def begin(self, ids: torch.Tensor, staged: torch.Tensor) -> None:
        """The first half: resident rows to their places, the others asked for."""
        count = ids.numel()
        demand(count <= self.lookups, "lookups of a step", count, f"at most {self.lookups}")
        if not count:
            return
        if self.resident is None:
            staged.masked_fill_((ids < 0)[:, None], 0)
        else:
            self.resident.gather(ids, staged)
        self._buffers.ids[:count].copy_(ids, non_blocking=True)
        self._launch("engram_step_begin", self._step(count))

    def finish(self, ids: torch.Tensor, staged: torch.Tensor) -> None:
        """The second half, for the same ids: wait for the rows that were asked for, and put them to their places."""
        count, buffers = ids.numel(), self._buffers
        if count:
            self._launch("engram_step_wait", self._step(count))
            kernels.place_rows[(triton.cdiv(count, LOOKUPS),)](
                *(buffers.read, buffers.places, buffers.given, staged.view(-1, ROW_VALUES)),
                ROW=BYTES["fp8"],
                BLOCK=LOOKUPS,
            )

    def look(self, ids: Ids, out: NDArray[np.uint16]) -> float:
        """Look up one step, wait for it, and return how long that took, us; bfloat16 bits go to `out` [lookups, 256]."""
        device = self.device
        asked = torch.from_numpy(ids).to(device)
        staged = torch.empty(ids.size, ROW_VALUES, dtype=torch.bfloat16, device=device)
        _settle(device)
        begin = time.perf_counter()
        self.stage(asked, staged)
        _settle(device)
        took = 1e6 * (time.perf_counter() - begin)
        out[: ids.size] = staged.cpu().view(torch.int16).numpy().view(np.uint16)
        return took

    def close(self) -> None:
        """Give the reader and the resident rows back; nothing of this may be under way or in a graph that still replays."""
        self.reader.close()
        self.resident = None

    def _step(self, count: int) -> _Step:
        """Return the step's argument, the same one for as many lookups: a captured graph keeps its address."""
        if count not in self._steps:
            buffers = self._buffers
            self._steps[count] = _Step(
                reader=self.reader.handle,
                ids=buffers.ids.data_ptr(),
                lookups=count,
                rows=self.reader.source.rows,
                lines=self.reader.lines,
                read=buffers.read.data_ptr(),
                places=buffers.places.data_ptr(),
                given=buffers.given.data_ptr(),
            )
        return self._steps[count]


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _called(name: str, step: _Step) -> None:
    getattr(library(), name)(ctypes.byref(step))


def _launched(name: str, step: _Step) -> None:
    """Put a host function on the current stream, in a graph where that is being captured (CUDA driver API: cuLaunchHostFunc)."""
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    function = ctypes.cast(getattr(library(), name), ctypes.c_void_p)
    code = _Driver.library().cuLaunchHostFunc(stream, function, ctypes.byref(step))
    demand(code == 0, "cuLaunchHostFunc", f"error {code}", "0", "see the driver's log")


class _Driver:
    """The CUDA driver's library, which is there wherever a CUDA device is."""

    loaded: Any = None

    @classmethod
    def library(cls) -> Any:
        if cls.loaded is None:
            cls.loaded = ctypes.CDLL("libcuda.so.1")
        return cls.loaded
