"""Method: how a layer of routed experts is loaded and computed in the place of the model's own way. vLLM asks it as it asks any other.

Parameters are those that the model's own method makes, EXL3's ours among them, so every checkpoint loads as it always did; what is done
with them after that is ours. Shared experts, router and sums over ranks stay vLLM's.
"""

from typing import Any

import torch
from vllm.model_executor.layers.fused_moe.fused_moe_method_base import FusedMoEMethodBase

from sparkctl_vllm.refusal import demand
from sparkctl_vllm.serving import reader
from sparkctl_vllm.serving.budget import Budget
from sparkctl_vllm.serving.exl3_method import Exl3Method
from sparkctl_vllm.serving.plain import refuse_others
from sparkctl_vllm.serving.routed import RoutedMethod
from sparkctl_vllm.step import Rows


class BudgetMethod(RoutedMethod):
    """One layer's experts, read as deep as the running step says."""

    def __init__(self, own: FusedMoEMethodBase, budget: Budget, place: int) -> None:
        super().__init__(own.moe)
        self.own, self.budget, self.place = own, budget, place
        self.door = place
        self.reader: reader.Reader = (
            own.reader if isinstance(own, Exl3Method) else reader.plain(budget.device)
        )

    def maybe_roundup_sizes(self, *sizes: Any) -> tuple[int, int]:
        """Let EXL3 experts take this rank's slice, which need not be an even share; others are cut as vLLM does."""
        if isinstance(self.own, Exl3Method):
            return self.own.maybe_roundup_sizes(*sizes)
        return super().maybe_roundup_sizes(*sizes)

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
        refuse_others(layer)
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

    def process_weights_after_loading(self, layer: Any) -> None:
        """Sort the layer's experts by the plan and let the loaded tensors go."""
        budget, bound = self.budget, self.budget.bound
        order = _order(bound.plan, self.place, bound.rank, budget.device)
        self.reader.take(layer, order, budget.most_rows)
        budget.loaded(self.place, self.reader.held.tile_bytes)
        if isinstance(self.own, Exl3Method):
            self.own.told()

    def computed(self, x: torch.Tensor, routed_weights: torch.Tensor, picks: torch.Tensor) -> torch.Tensor:
        """Compute it outside of any graph of torch.compile. How many rows there are is all that decides here: a captured graph keeps it."""
        asked, budget = Rows(x=x, picks=picks.int(), weights=routed_weights), self.budget
        if len(x) > budget.most_rows:
            return self.reader.read_whole(asked).to(x.dtype)
        depths = budget.depths(self.place, asked.picks, asked.weights)
        return self.reader.read(asked, depths, budget.running.rows).to(x.dtype)


def _order(plan: Any, place: int, rank: int, device: torch.device) -> torch.Tensor | None:
    if plan.meaning.applied:
        return None
    begin = sum(plan.meaning.widths[:rank])
    mine = plan.tables[f"perm.L{place}"][:, begin : begin + plan.meaning.widths[rank]].astype("int64")
    return torch.from_numpy(mine - begin).to(device)
