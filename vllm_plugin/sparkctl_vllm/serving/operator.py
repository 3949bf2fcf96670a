"""Operator: the one door through which a compiled or captured model calls a layer that is read by budget; torch sees it as a whole."""

from collections.abc import Callable

import torch

Computed = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

LAYERS: dict[int, Computed] = {}
"""By the plan's number of a layer, or one below zero for a layer that no plan has: x [rows, hidden], router weights and picks [rows, top-k] to
[rows, hidden]."""


def opened(computed: Computed) -> int:
    """Give a layer that no plan has a number below zero, and return it."""
    number = min((0, *LAYERS)) - 1
    LAYERS[number] = computed
    return number


@torch.library.custom_op("sparkctl::routed_experts", mutates_args=())
def routed_experts(x: torch.Tensor, weights: torch.Tensor, picks: torch.Tensor, layer: int) -> torch.Tensor:
    """Return what the layer's experts make of x."""
    return LAYERS[layer](x, weights, picks)


@routed_experts.register_fake
def _(x: torch.Tensor, weights: torch.Tensor, picks: torch.Tensor, layer: int) -> torch.Tensor:  # noqa: ARG001
    return torch.empty_like(x)
