"""Reader: one layer's routed experts in one format, from the tensors that vLLM loaded to what a step reads of them.

On the CPU it is the definition, on a GPU (`kernel_reader`) the kernels.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from sparkctl_vllm import reference
from sparkctl_vllm.exl3 import read as exl3_read
from sparkctl_vllm.exl3.kernel_experts import Exl3Experts
from sparkctl_vllm.experts import Experts
from sparkctl_vllm.serving import exl3_slices, weights
from sparkctl_vllm.step import Rows, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What was taken out of a layer: how many experts, of how many tiles, of how many bytes."""

    experts: int
    tiles: int
    tile_bytes: int

    @classmethod
    def of(cls, experts: Experts | Exl3Experts) -> "Held":
        """Return it of experts of either kind."""
        return cls(experts=experts.gate.shape[0], tiles=experts.tiles, tile_bytes=experts.tile_bytes)


class Reader(Protocol):
    """Experts that can be taken out of a layer once, and read to depths."""

    held: Held

    def take(self, layer: Any, order: torch.Tensor | None, most_rows: int) -> None:
        """Take the experts out of the layer, sorted by `order`, [experts, neurons] of old places; none: they lie as they are read.

        Reads to depths will be of up to `most_rows` rows; what they need is reserved here.
        """
        ...

    def read(self, asked: Rows, depths: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """Return y float32 [rows, hidden] for depths int32 [experts] in tiles; rows from `live`, int32 [1], on are padding."""
        ...

    def read_whole(self, asked: Rows) -> torch.Tensor:
        """Return y float32 [rows, hidden] of whole experts, for any number of rows."""
        ...


class DefinitionReader:
    """What both formats do on the CPU: the definition, an expert at a time."""

    held: Held

    def read(self, asked: Rows, depths: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """Read to depths."""
        valid = min(int(live), len(asked.x))
        return self.read_to(Step(x=asked.x, picks=asked.picks, weights=asked.weights, valid=valid), depths)

    def read_whole(self, asked: Rows) -> torch.Tensor:
        """Read all tiles."""
        depths = torch.full((self.held.experts,), self.held.tiles, dtype=torch.int32)
        return self.read(asked, depths, torch.tensor([len(asked.x)]))

    def read_to(self, step: Step, depths: torch.Tensor) -> torch.Tensor:
        """Compute it."""
        raise NotImplementedError


class PlainReader(DefinitionReader):
    """bf16 and MXFP4, in tiles of 64."""

    experts: Experts

    def take(self, layer: Any, order: torch.Tensor | None, most_rows: int) -> None:  # noqa: ARG002
        """Sort and take."""
        self.experts = weights.taken(layer, order, limit(layer))
        self.held = Held.of(self.experts)

    def read_to(self, step: Step, depths: torch.Tensor) -> torch.Tensor:
        """Compute it."""
        return reference.read_to(step, depths, self.experts, torch.float32)


class Exl3Reader(DefinitionReader):
    """EXL3, in blocks of 128, which lie sorted in the checkpoint or not at all."""

    experts: Exl3Experts

    def take(self, layer: Any, order: torch.Tensor | None, most_rows: int) -> None:  # noqa: ARG002
        """Take; there is nothing to sort by any more."""
        assert order is None  # noqa: S101 - binding refuses a plan that is not applied
        self.experts = exl3_slices.taken(layer, limit(layer))
        self.held = Held.of(self.experts)

    def read_to(self, step: Step, depths: torch.Tensor) -> torch.Tensor:
        """Compute it, decoding on the way."""
        return exl3_read.read_to(step, depths, self.experts, torch.float32)


def plain(device: torch.device) -> Reader:
    """Return the reader of bf16 and MXFP4 for a device."""
    if device.type == "cpu":
        return PlainReader()
    from sparkctl_vllm.serving.kernel_reader import KernelReader, plain_loaded  # noqa: PLC0415 - Triton is there where a GPU is

    return KernelReader(plain_loaded)


def coded(device: torch.device) -> Reader:
    """Return the reader of EXL3 for a device."""
    if device.type == "cpu":
        return Exl3Reader()
    from sparkctl_vllm.serving.kernel_reader import KernelReader, coded_loaded  # noqa: PLC0415 - as above

    return KernelReader(coded_loaded)


def limit(layer: Any) -> float:
    """Return the clamp of SwiGLU, infinite for none."""
    return float(getattr(layer, "swiglu_limit", None) or "inf")
