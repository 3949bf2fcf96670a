"""Layer: vLLM's routed experts with our method, in the place that vLLM keeps for other people's layers. A drafter's are left alone."""

import logging
import os
from functools import cache
from pathlib import Path
from typing import Any

from vllm.config import get_current_vllm_config
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.model_executor.layers.fused_moe.fused_moe_method_base import FusedMoEMethodBase
from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
from vllm.model_executor.models.utils import extract_layer_index
from vllm.platforms import current_platform

from sparkctl_vllm.refusal import demand
from sparkctl_vllm.serving import operator, runner, settings
from sparkctl_vllm.serving.binding import bound
from sparkctl_vllm.serving.budget import Budget
from sparkctl_vllm.serving.figures import Figures
from sparkctl_vllm.serving.method import BudgetMethod

log = logging.getLogger("vllm.sparkctl")


class BudgetRoutedExperts(RoutedExperts):
    """Routed experts whose method is ours where the plan knows the layer, and the model's own elsewhere."""

    def _get_quant_method(self, prefix: str, quant_config: Any, moe_config: Any) -> FusedMoEMethodBase:
        own = super()._get_quant_method(prefix, quant_config, moe_config)
        budget = serving()
        place = budget.bound.place(extract_layer_index(prefix), operator.LAYERS)
        if place is None:
            log.info("sparkctl budget reads: %s is no layer of the plan and stays as it is", prefix)
            return own
        made = BudgetMethod(own, budget, place)
        operator.LAYERS[place] = made.computed
        return made


@cache
def serving() -> Budget:
    """Return this worker's budget, made when its first layer of experts is: by then vLLM's configuration stands."""
    config = get_current_vllm_config()
    asked = settings.read(os.environ)
    demand(asked.plan is not None, settings.PLAN, "not set", "a plan file")
    rank = get_tensor_model_parallel_rank()
    fit = bound(Path(str(asked.plan)), config, rank, exl3=asked.exl3)
    device = runner.device(config, current_platform)
    rows = fit.plan.tables["price"].shape[1] - 1
    figures = Figures.made(asked.figures if rank == 0 else None, len(fit.plan.meaning.widths), rows)
    made = Budget(fit, asked.policy, config.scheduler_config.max_num_seqs, figures, device)
    runner.attach(made)
    return made
