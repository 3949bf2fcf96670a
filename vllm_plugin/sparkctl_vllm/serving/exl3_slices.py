"""Slices: the EXL3 tensors of one layer's routed experts as vLLM loads them, cut to this rank's whole blocks of 128 neurons.

w13 holds gate and up one behind the other, each with its own rows, so that both are taken as they lie and nothing is copied afterwards.
"""

from dataclasses import dataclass
from typing import Any

import torch

from sparkctl_vllm.exl3 import codebook, trellis
from sparkctl_vllm.exl3.checkpoint import Shape
from sparkctl_vllm.exl3.kernel_experts import CODEBOOK, Exl3Experts, Stack
from sparkctl_vllm.exl3.matrix import uneven
from sparkctl_vllm.refusal import demand

KINDS = ("trellis", "suh", "svh", CODEBOOK)
HALVES = {"w1": 0, "w3": 1}
"""vLLM's names of gate and up, and where w13 has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One rank's neurons of a layer: `width` of them from `begin` on."""

    shape: Shape
    begin: int
    width: int

    @classmethod
    def of(cls, shape: Shape, rank: int, ranks: int) -> "Slice":
        """Return the slice of a rank: even where that leaves whole blocks, else as the format's readers share them out."""
        widths = uneven(shape.neurons, ranks)
        return cls(shape=shape, begin=sum(widths[:rank]), width=widths[rank])

    def reserve(self, layer: torch.nn.Module) -> None:
        """Give the layer its parameters, each with a loader that cuts what it is given."""
        side, experts = trellis.SIDE, self.shape.experts
        hidden, width = self.shape.hidden, self.width
        bits = (self.shape.rates["gate"], self.shape.rates["down"])
        sizes = {
            "w13_trellis": (2, experts, hidden // side, width // side, side * bits[0]),
            "w13_suh": (2, experts, hidden),
            "w13_svh": (2, experts, width),
            "w2_trellis": (experts, width // side, hidden // side, side * bits[1]),
            "w2_suh": (experts, width),
            "w2_svh": (experts, hidden),
            f"w13_{CODEBOOK}": (2, experts),
            f"w2_{CODEBOOK}": (experts,),
        }
        for name, size in sizes.items():
            dtype = _dtype(name)
            made = torch.nn.Parameter(torch.zeros(size, dtype=dtype), requires_grad=False)
            vars(made)["weight_loader"] = self.load  # where vLLM looks for it
            layer.register_parameter(name, made)

    def load(  # noqa: PLR0913, PLR0917 - as vLLM calls it
        self,
        param: torch.nn.Parameter,
        loaded_weight: torch.Tensor,
        weight_name: str,
        shard_id: str,
        expert_id: int,
        return_success: bool = False,  # noqa: FBT001, FBT002
    ) -> bool | None:
        """Take one tensor of one expert, whole as the checkpoint has it, and keep this rank's part."""
        kind = weight_name.rsplit("_", 1)[-1]
        named = f"{weight_name}, expert {expert_id}, {shard_id}"
        target = param.data[expert_id] if shard_id == "w2" else param.data[HALVES[shard_id], expert_id]
        demand(loaded_weight.dtype == target.dtype, named, loaded_weight.dtype, str(target.dtype))
        if kind == CODEBOOK:
            codebook.named({CODEBOOK: int(loaded_weight)})
            target.fill_(1)
        else:
            part = self._part(kind, shard_id, loaded_weight)
            demand(part.shape == target.shape, named, tuple(part.shape), str(tuple(target.shape)))
            target.copy_(part)
        return True if return_success else None

    def _part(self, kind: str, shard: str, whole: torch.Tensor) -> torch.Tensor:
        """Return this rank's part: outputs of gate and up, inputs of down; the scales of the other side are the same on every rank."""
        if kind == "trellis":
            inner = slice(self.begin // trellis.SIDE, (self.begin + self.width) // trellis.SIDE)
            return whole[inner] if shard == "w2" else whole[:, inner]
        cut = kind == ("suh" if shard == "w2" else "svh")
        return whole[self.begin : self.begin + self.width] if cut else whole


def taken(layer: Any, limit: float) -> Exl3Experts:
    """Return what was loaded as experts; the layer holds none of it afterwards. Nothing is copied."""
    parts = {}
    for name in ("w13", "w2"):
        held = {kind: getattr(layer, f"{name}_{kind}").data for kind in KINDS}
        lacking = int((held[CODEBOOK] == 0).sum())
        demand(
            not lacking,
            f"{layer.layer_name}: {name}",
            f"{lacking} matrices were not loaded",
            "all of the checkpoint",
        )
        parts[name] = held
        for kind in KINDS:
            delattr(layer, f"{name}_{kind}")
    wide, down = parts["w13"], parts["w2"]
    gate, up = (
        Stack(trellis=wide["trellis"][half], suh=wide["suh"][half], svh=wide["svh"][half]) for half in (0, 1)
    )
    return Exl3Experts(
        gate=gate,
        up=up,
        down=Stack(trellis=down["trellis"], suh=down["suh"], svh=down["svh"]),
        limit=limit,
    )


def _dtype(name: str) -> torch.dtype:
    kind = name.rsplit("_", 1)[-1]
    return {"trellis": torch.int16, CODEBOOK: torch.int32}.get(kind, torch.float16)
