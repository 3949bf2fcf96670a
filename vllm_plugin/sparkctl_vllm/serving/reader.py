"""Reader: one layer's routed experts in one format, from the tensors that vLLM loaded to what a step reads of them."""

from typing import Any, Protocol

import torch

from sparkctl_vllm import reference
from sparkctl_vllm.exl3 import read as exl3_read
from sparkctl_vllm.exl3.kernel_experts import Exl3Experts
from sparkctl_vllm.experts import Experts
from sparkctl_vllm.serving import exl3_slices, weights
from sparkctl_vllm.step import Step


class Reader(Protocol):
    """Experts that can be taken out of a layer once, and read to depths."""

    def take(self, layer: Any, order: torch.Tensor | None) -> None:
        """Take the experts out of the layer, sorted by `order`, [experts, neurons] of old places; none: they lie as they are read."""
        ...

    @property
    def experts(self) -> Experts | Exl3Experts:
        """What was taken."""
        ...

    def read(self, step: Step, depths: torch.Tensor) -> torch.Tensor:
        """Return y float32 [rows, hidden] for depths int32 [experts] in tiles of the format."""
        ...


class PlainReader:
    """bf16 and MXFP4, in tiles of 64."""

    experts: Experts

    def take(self, layer: Any, order: torch.Tensor | None) -> None:
        """Sort and take."""
        self.experts = weights.taken(layer, order, limit(layer))

    def read(self, step: Step, depths: torch.Tensor) -> torch.Tensor:
        """Read to depths."""
        return reference.read_to(step, depths, self.experts, torch.float32)


class Exl3Reader:
    """EXL3, in blocks of 128, which lie sorted in the checkpoint or not at all."""

    experts: Exl3Experts

    def take(self, layer: Any, order: torch.Tensor | None) -> None:
        """Take; there is nothing to sort by any more."""
        assert order is None  # noqa: S101 - binding refuses a plan that is not applied
        self.experts = exl3_slices.taken(layer, limit(layer))

    def read(self, step: Step, depths: torch.Tensor) -> torch.Tensor:
        """Read to depths, decoding on the way."""
        return exl3_read.read_to(step, depths, self.experts, torch.float32)


def limit(layer: Any) -> float:
    """Return the clamp of SwiGLU, infinite for none."""
    return float(getattr(layer, "swiglu_limit", None) or "inf")
