"""Weights: what vLLM loaded of one layer's routed experts becomes experts sorted by the plan, the loaded tensors let go on the way.

At the most the layer's own bytes and two thirds of them again are held at once: gate and up are sorted while w13 still stands, then w13
goes, and down is sorted while w2 stands.
"""

from typing import Any

import torch

from sparkctl_vllm.experts import Experts, Matrix, moved
from sparkctl_vllm.refusal import demand

SCALE = "_weight_scale"


def taken(layer: Any, order: torch.Tensor | None, limit: float) -> Experts:
    """Return a layer's experts sorted; the layer holds no expert weight afterwards. `order` is [experts, neurons] of old places.

    vLLM keeps gate above up in w13 [experts, 2 neurons, hidden] and down as w2 [experts, hidden, neurons], with scales beside MXFP4 codes.
    """
    gate, up = (_half(layer, half, order) for half in (0, 1))
    _let_go(layer, "w13")
    down = _down(layer, order)
    _let_go(layer, "w2")
    return Experts(gate=gate, up=up, down=down, limit=limit)


def _held(layer: Any, part: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    codes = getattr(layer, f"{part}_weight").data
    scales = getattr(layer, part + SCALE, None)
    packed = codes.dtype == torch.uint8
    demand(
        packed == (scales is not None) and (packed or codes.dtype == torch.bfloat16),
        f"{layer.layer_name}: {part}",
        codes.dtype,
        "bfloat16, or MXFP4 as codes and scales",
        "serve a bf16 checkpoint with --dtype bfloat16; other formats are not read by budget",
    )
    return codes, None if scales is None else scales.data


def _half(layer: Any, half: int, order: torch.Tensor | None) -> Matrix:
    codes, scales = _held(layer, "w13")
    neurons = codes.shape[1] // 2

    def rows(one: torch.Tensor) -> torch.Tensor:
        mine = one[:, half * neurons : (half + 1) * neurons]
        return mine.contiguous() if order is None else moved(mine, order, 0)

    return Matrix(codes=rows(codes), scales=None if scales is None else rows(scales))


def _down(layer: Any, order: torch.Tensor | None) -> Matrix:
    codes, scales = _held(layer, "w2")
    loaded = Matrix(codes=codes, scales=scales)
    return loaded if order is None else loaded.columns(order)


def _let_go(layer: Any, part: str) -> None:
    for name in (f"{part}_weight", part + SCALE):
        if hasattr(layer, name):
            delattr(layer, name)
