"""Routed: what vLLM asks alike of every method that reads a layer's experts here."""

from typing import Any

import torch
from vllm.model_executor.layers.fused_moe.fused_moe_method_base import FusedMoEMethodBase


class RoutedMethod(FusedMoEMethodBase):
    """A layer whose experts the plug-in's operator computes, found by its `door` (see `operator.py`)."""

    door: int | None = None

    def get_fused_moe_quant_config(self, layer: Any) -> None:
        """Return nothing: no kernel of vLLM reads these experts."""

    def apply(  # noqa: PLR0913, PLR0917 - as vLLM calls it
        self,
        layer: Any,
        x: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        shared_experts: Any,
        shared_experts_input: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return the sum over each row's experts, as deep as they are read now."""
        return torch.ops.sparkctl.routed_experts(x, topk_weights.float(), topk_ids, self.door)
