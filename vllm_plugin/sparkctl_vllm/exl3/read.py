"""A read of EXL3 experts to depths that are given, in plain PyTorch: what `reference.read_to` is for weights of other formats."""

import torch

from sparkctl_vllm.exl3.kernel_experts import Exl3Experts
from sparkctl_vllm.exl3.matrix import BLOCK
from sparkctl_vllm.step import Step


def read_to(
    step: Step, depths: torch.Tensor, experts: Exl3Experts, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Return y [rows, hidden] in `dtype`, the first 128 * depth neurons of each expert; padding rows are 0.

    `depths` is int32 [experts]; whom nobody picked is not read, however deep. Weights are decoded as they are read, an expert at a time.
    """
    picks, limit = step.picks[: step.valid], experts.limit
    y = torch.zeros(step.x.shape, dtype=dtype, device=step.x.device)
    for expert in picks[picks >= 0].unique().tolist():
        neurons = int(depths[expert]) * BLOCK
        if neurons == 0:
            continue
        rows, slots = (picks == expert).nonzero(as_tuple=True)
        x = step.x[rows].to(dtype)
        gate, up = (one.matrix(expert).columns(neurons)(x) for one in (experts.gate, experts.up))
        h = torch.nn.functional.silu(gate.clamp(max=limit)) * up.clamp(-limit, limit)
        out = experts.down.matrix(expert).rows(neurons)(h)
        y.index_add_(0, rows, out * step.weights[rows, slots].to(dtype)[:, None])
    return y
