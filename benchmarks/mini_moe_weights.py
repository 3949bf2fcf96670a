"""Weights of the mini model as a server would hold them: its own MXFP4, as they are or sorted, and those of an EXL3 checkpoint, decoded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from mini_moe import Mini, rounded
from sparkctl_vllm.exl3 import account
from sparkctl_vllm.exl3.checkpoint import opened
from sparkctl_vllm.exl3.matrix import Exl3Matrix

PARTS = ("w1", "w2", "w3")
NAMES = {"w1": "gate", "w2": "down", "w3": "up"}
MXFP4_BITS = 4.25
"""Bits a weight: four and a scale byte for 32 of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Experts' weights by layer and part, [experts, out, in], and what a weight takes, layer by layer, in bits with its scales."""

    held: Sequence[dict[str, torch.Tensor]]
    bits: tuple[float, ...]

    def into(self, model: Mini) -> None:
        """Put them into a model."""
        for layer, one in zip(model.layers, self.held, strict=True):
            for part in PARTS:
                getattr(layer.experts, part).data.copy_(one[part])


def own(model: Mini) -> Weights:
    """Return the weights that a model has now."""
    held = [{part: getattr(layer.experts, part).data.clone() for part in PARTS} for layer in model.layers]
    return Weights(held=held, bits=(MXFP4_BITS,) * len(held))


def in_order(weights: Weights, orders: Sequence[np.ndarray]) -> Weights:
    """Return MXFP4 weights with their neurons in another order; the down weight's groups of 32 are rounded anew, as a server must."""
    held = []
    for one, order in zip(weights.held, orders, strict=True):
        index = torch.from_numpy(order.astype(np.int64)).to(one["w1"].device)
        rows = {part: torch.take_along_dim(one[part], index[..., None], dim=1) for part in ("w1", "w3")}
        held.append({**rows, "w2": rounded(torch.take_along_dim(one["w2"], index[:, None], dim=2))})
    return replace(weights, held=held)


def decoded(folder: Path, device: torch.device) -> Weights:
    """Return what our decoder reads from an EXL3 checkpoint."""
    checkpoint = opened(folder)
    held, bits = [], []
    for layer in checkpoint.layers:
        shape = checkpoint.shape(layer)
        one: Callable[[int, str], torch.Tensor] = lambda expert, part, layer=layer: _dense(checkpoint.matrix(layer, expert, NAMES[part]), device)  # noqa: E731 # fmt: skip
        held.append({part: torch.stack([one(expert, part) for expert in range(shape.experts)]) for part in PARTS})  # fmt: skip
        bits.append(account.bits({layer: shape}).stored)
    return Weights(held=held, bits=tuple(bits))


def _dense(one: Exl3Matrix, device: torch.device) -> torch.Tensor:
    there = replace(one, trellis=one.trellis.to(device), suh=one.suh.to(device), svh=one.svh.to(device))
    return there.dense(torch.float32).T.contiguous()
