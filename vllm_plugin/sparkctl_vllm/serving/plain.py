"""Plain experts: what every method of ours asks of a layer before it takes it."""

from typing import Any

from vllm.model_executor.layers.fused_moe.activation import MoEActivation

from sparkctl_vllm.refusal import demand


def refuse_others(layer: Any) -> None:
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
