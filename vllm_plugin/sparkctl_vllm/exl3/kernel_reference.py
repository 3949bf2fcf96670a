"""The definition of a budget read over EXL3 experts, in plain PyTorch: the plan of `reference.py`, the matrices of `matrix.py`.

    y_t = sum over picks of weight * down( silu(min(gate(x_t), limit)) * clamp(up(x_t), +-limit) ), the first 128 * depth neurons of each

Weights are the format's float16 numbers to the last bit, everything else is in float64. What the kernels round, and nothing else:

- x times suh: exact in float32. The Hadamard matrix in front: float32, 1/sqrt(128) taken later. Then one factor for a row and a warp's inputs
  (a sixteenth of gate's and up's, all of down's): fast, to 16 bits of the largest magnitude; exact, float16 after a power of two.
- Products: fast, the integers 1774 t - 905216 are not rounded to float16 but summed as they are, which the definition does not do; exact,
  float16 numbers and float32 sums.
- Behind it float32: sums of the parts in a fixed order, Hadamard matrix, svh, SwiGLU, router weight, the next suh.

`TOLERANCE` holds for both ways to decode.
"""

import torch

from sparkctl_vllm.exl3.kernel_experts import Exl3Experts
from sparkctl_vllm.exl3.matrix import BLOCK
from sparkctl_vllm.reference import planned
from sparkctl_vllm.step import Reading, Step

TOLERANCE = 5e-4
"""Relative error of a layer's output. Ours: half of what readers of the format allow for half-precision staging, 1e-3."""


def read(step: Step, reading: Reading, experts: Exl3Experts) -> torch.Tensor:
    """Return y, float64 [rows, hidden], on the CPU; padding rows are 0. Only the read prefix of each expert is touched."""
    plan = planned(step, reading, experts.gate.shape[0])
    picks, weights = step.picks[: step.valid].cpu(), step.weights[: step.valid].cpu().double()
    x, y = step.x.cpu().double(), torch.zeros(step.x.shape, dtype=torch.float64)
    for expert in plan.depths.nonzero().flatten().tolist():
        neurons = int(plan.depths[expert]) * BLOCK
        rows, slots = (picks == expert).nonzero(as_tuple=True)
        gate, up = (one.matrix(expert).columns(neurons)(x[rows]) for one in (experts.gate, experts.up))
        h = torch.nn.functional.silu(gate.clamp(max=experts.limit)) * up.clamp(-experts.limit, experts.limit)
        out = experts.down.matrix(expert).rows(neurons)(h)
        y.index_add_(0, rows, out * weights[rows, slots][:, None])
    return y
