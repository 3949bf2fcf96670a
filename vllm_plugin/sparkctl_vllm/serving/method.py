"""Method: how a layer of routed experts is loaded and computed in the place of the model's own way. vLLM asks it as it asks any other.

Parameters are those that the model's own method makes, so every checkpoint loads as it always did; what is done with them after that is
ours. Shared experts, router and sums over ranks stay vLLM's.
"""

from typing import TYPE_CHECKING, Any

import torch
from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm.model_executor.layers.fused_moe.fused_moe_method_base import FusedMoEMethodBase

from sparkctl_vllm import reference
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.serving import weights
from sparkctl_vllm.serving.budget import Budget
from sparkctl_vllm.step import Step

if TYPE_CHECKING:
    from sparkctl_vllm.experts import Experts


class BudgetMethod(FusedMoEMethodBase):
    """One layer's experts, read as deep as the running step says."""

    def __init__(self, own: FusedMoEMethodBase, budget: Budget, place: int) -> None:
        super().__init__(own.moe)
        self.own, self.budget, self.place = own, budget, place
        self.experts: Experts | None = None

    def create_weights(
        self,
        layer: Any,
        num_experts: int,
        hidden_size: int,
        intermediate_size_per_partition: int,
        params_dtype: torch.dtype,
        **attributes: Any,
    ) -> None:
        """Let the model's own method make the parameters, after a look whether the plan fits this layer."""
        _plain(layer)
        meaning = self.budget.bound.plan.meaning
        found = (num_experts, intermediate_size_per_partition)
        wanted = (meaning.experts, meaning.widths[self.budget.bound.rank])
        demand(
            found == wanted,
            f"{layer.layer_name}: experts and neurons of a rank",
            found,
            f"{wanted}, the plan's",
        )
        self.own.create_weights(
            layer, num_experts, hidden_size, intermediate_size_per_partition, params_dtype, **attributes
        )

    def get_fused_moe_quant_config(self, layer: Any) -> None:
        """Return nothing: no kernel of vLLM reads these experts."""

    def process_weights_after_loading(self, layer: Any) -> None:
        """Sort the layer's experts by the plan and let the loaded tensors go."""
        bound = self.budget.bound
        limit = float(getattr(layer, "swiglu_limit", None) or "inf")
        self.experts = weights.taken(
            layer, _order(bound.plan, self.place, bound.rank, self.budget.device), limit
        )
        self.budget.loaded(self.place, self.experts.tile_bytes)

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
        return torch.ops.sparkctl.routed_experts(x, topk_weights.float(), topk_ids, self.place)

    def computed(self, x: torch.Tensor, routed_weights: torch.Tensor, picks: torch.Tensor) -> torch.Tensor:
        """Compute it outside of any graph of torch.compile."""
        experts, budget = self.experts, self.budget
        assert experts is not None  # noqa: S101 - vLLM loads before it serves
        picks = picks.int()
        batch = budget.batch
        if batch is None:
            depths = torch.full((experts.gate.shape[0],), experts.tiles)
            step = Step(x=x, picks=picks, weights=routed_weights, valid=len(x))
        else:
            depths = budget.depths(self.place, picks[: batch.rows], routed_weights[: batch.rows])
            step = Step(x=x, picks=picks, weights=routed_weights, valid=batch.rows)
        return reference.read_to(step, depths, experts, torch.float32).to(x.dtype)


def _order(plan: Any, place: int, rank: int, device: torch.device) -> torch.Tensor | None:
    if plan.meaning.applied:
        return None
    begin = sum(plan.meaning.widths[:rank])
    mine = plan.tables[f"perm.L{place}"][:, begin : begin + plan.meaning.widths[rank]].astype("int64")
    return torch.from_numpy(mine - begin).to(device)


def _plain(layer: Any) -> None:
    """Refuse experts that are no plain SwiGLU without bias, weighted at their output."""
    moe = layer.moe_config
    demand(
        layer.activation == MoEActivation.SILU, f"{layer.layer_name}: activation", layer.activation, "silu"
    )
    unread = {
        "bias": moe.has_bias,
        "router weight on the input": layer.apply_router_weight_on_input,
        "sequence parallel": moe.is_sequence_parallel,
        "expert parallel": moe.moe_parallel_config.use_ep,
    }
    found = [what for what, is_so in unread.items() if is_so]
    demand(not found, layer.layer_name, ", ".join(found), "experts without any of these")
