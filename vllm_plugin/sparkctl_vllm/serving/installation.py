"""Installation of budget reads: vLLM's layer of routed experts, its prefix cache and its metrics are told, once a process."""

from vllm.model_executor.custom_op import PluggableLayer, op_registry_oot

from sparkctl_vllm.serving import metrics, prefix_cache
from sparkctl_vllm.serving.settings import Settings

LAYER = "RoutedExperts"


def install(asked: Settings) -> None:
    """Register what reads by budget."""
    if LAYER in op_registry_oot:
        return
    from sparkctl_vllm.serving.layer import BudgetRoutedExperts  # noqa: PLC0415 - heavy, and wanted only here

    PluggableLayer.register_oot(BudgetRoutedExperts, name=LAYER)
    prefix_cache.prompts_only()
    metrics.install(asked)
