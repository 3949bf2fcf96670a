"""Taps: hooks that catch what a model's routed experts are asked, and the gradient of their output, on any PyTorch model.

A module is a layer's experts when its call takes hidden states [tokens, hidden], picks (integers) and router weights, both [tokens, top-k], in
any order, by place or by name: so are the experts of Hugging Face's transformers from 5.0 on, and `Experts.forward` of our mini model.
Models that call each expert by itself have no such module: `Activations` taps their down projections instead, and catches counts and squares.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from sparkctl_vllm.calibration.recording import Routed
from sparkctl_vllm.refusal import demand

EXPERTS = r"(?:^|\.)layers\.(\d+)\..*experts$"
DOWN = r"(?:^|\.)layers\.(\d+)\..*experts\.(\d+)\.(?:w2|down_proj)$"


@dataclass(slots=True)
class Caught:
    """What the last forward brought, by layer: `routed`, and `outputs`, the experts' output [tokens, hidden] in the graph of the gradients."""

    routed: dict[int, Routed] = field(default_factory=dict)
    outputs: dict[int, torch.Tensor] = field(default_factory=dict)

    def gradients(self, loss: torch.Tensor) -> dict[int, torch.Tensor]:
        """Return the gradient of a loss by each layer's output, [tokens, hidden]; no gradient of a weight is made."""
        outputs = list(self.outputs.values())
        demand(
            outputs and all(one.requires_grad for one in outputs),
            "experts' outputs",
            "without gradients",
            "a model with at least its embedding's requires_grad set",
        )
        found = torch.autograd.grad(loss, outputs)
        return {layer: one.flatten(0, -2) for layer, one in zip(self.outputs, found, strict=True)}


@contextmanager
def tapped(model: nn.Module, pattern: str = EXPERTS) -> Iterator[Caught]:
    """Tap the experts of a model while the block runs; group 1 of the pattern is the layer."""
    modules = {
        int(match[1]): module for name, module in model.named_modules() if (match := re.search(pattern, name))
    }
    demand(
        modules,
        "experts modules",
        "none",
        f"modules whose name fits {pattern}",
        "give the pattern of this model",
    )
    caught = Caught()
    handles = [
        module.register_forward_hook(_tap(layer, caught), with_kwargs=True)
        for layer, module in modules.items()
    ]
    try:
        yield caught
    finally:
        for handle in handles:
            handle.remove()


def _tap(layer: int, caught: Caught) -> Callable[..., None]:
    def hook(
        _module: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any], output: torch.Tensor
    ) -> None:
        caught.routed[layer] = _asked(layer, (*args, *named.values()))
        caught.outputs[layer] = output

    return hook


def _asked(layer: int, given: tuple[Any, ...]) -> Routed:
    tensors = [one.detach() for one in given if isinstance(one, torch.Tensor) and one.ndim >= 2]
    picks = [one for one in tensors if not one.is_floating_point()]
    demand(
        len(picks) == 1,
        f"layer {layer}: picks",
        len(picks),
        "one tensor of integers [tokens, top-k] in the call",
    )
    floats = [one.flatten(0, -2) for one in tensors if one.is_floating_point()]
    chosen = picks[0].flatten(0, -2)
    weights = [one for one in floats if one.shape == chosen.shape]
    x = [one for one in floats if len(one) == len(chosen) and one.shape != chosen.shape]
    demand(
        len(weights) == 1 and len(x) == 1,
        f"layer {layer}: call of the experts",
        [tuple(one.shape) for one in floats],
        f"hidden states [{len(chosen)}, hidden] and router weights {tuple(chosen.shape)}",
    )
    return Routed(
        x=x[0].to("cpu", torch.bfloat16),
        picks=chosen.to("cpu", torch.int32),
        weights=weights[0].to("cpu", torch.float32),
    )


@dataclass(slots=True)
class Activations:
    """Counts and sums of squares caught at down projections: by (layer, expert), the squares float64 [neurons]."""

    count: dict[tuple[int, int], int] = field(default_factory=dict)
    square: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)


@contextmanager
def tapped_down(model: nn.Module, pattern: str = DOWN) -> Iterator[Activations]:
    """Tap what each expert's down projection reads; groups 1 and 2 of the pattern are the layer and the expert."""
    modules = {
        (int(match[1]), int(match[2])): module
        for name, module in model.named_modules()
        if (match := re.search(pattern, name))
    }
    demand(
        modules,
        "down projections",
        "none",
        f"modules whose name fits {pattern}",
        "give the pattern of this model",
    )
    caught = Activations()

    def tap(place: tuple[int, int]) -> Callable[..., None]:
        def hook(_module: nn.Module, args: tuple[Any, ...]) -> None:
            h = args[0].detach().double().flatten(0, -2)
            square = h.square().sum(0).cpu()
            caught.count[place] = caught.count.get(place, 0) + len(h)
            caught.square[place] = caught.square.get(place, torch.zeros_like(square)) + square

        return hook

    handles = [module.register_forward_pre_hook(tap(place)) for place, module in modules.items()]
    try:
        yield caught
    finally:
        for handle in handles:
            handle.remove()
