"""The definition of a budget read, in plain PyTorch: loads, depths, and the sum over the read prefix of each expert.

    load_e  = sum over rows of max(1, round(weight^2 * 2^20))                     int32
    depth_e = tiles k with float32(load_e) * importance[e, k] > price       between floor and all; 0 where no row picked e
    y_t     = sum over picks of weight * sum over the first 64*depth neurons of silu(min(gate, limit)) * clamp(up, +-limit) * w2 column

Every kernel is held against this in float64.
"""

from dataclasses import dataclass

import torch

from sparkctl_vllm.experts import TILE, Experts
from sparkctl_vllm.loads import UNIT
from sparkctl_vllm.step import Reading, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a step reads: loads int32 [experts], depths int32 [experts] in tiles."""

    loads: torch.Tensor
    depths: torch.Tensor

    @property
    def tiles(self) -> int:
        """Tiles that are read, each once."""
        return int(self.depths.sum())


def planned(step: Step, reading: Reading, experts: int) -> Planned:
    """Return loads and depths of a step."""
    picks, weights = step.picks[: step.valid], step.weights[: step.valid].float()
    squares = torch.round(weights * weights * UNIT).clamp(min=1).to(torch.int32)
    here = picks >= 0
    loads = torch.zeros(experts, dtype=torch.int32, device=picks.device)
    loads.index_add_(0, picks[here].long(), squares[here])
    rows = torch.bincount(picks[here].long(), minlength=experts)
    worth = loads.float()[:, None] * reading.importance > reading.price
    deep = worth.sum(1).clamp(min=reading.floor)
    return Planned(loads=loads, depths=torch.where(rows > 0, deep, 0).to(torch.int32))


def hidden(experts: Experts, expert: int, x: torch.Tensor, neurons: int, dtype: torch.dtype) -> torch.Tensor:
    """Return the activations of an expert's first neurons, [rows, neurons]."""
    gate = x @ experts.gate.numbers(expert, dtype)[:neurons].T
    up = x @ experts.up.numbers(expert, dtype)[:neurons].T
    return torch.nn.functional.silu(gate.clamp(max=experts.limit)) * up.clamp(-experts.limit, experts.limit)


def read(step: Step, reading: Reading, experts: Experts, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return y, [rows, hidden] in `dtype`; padding rows are 0. Only the read prefix of each expert is touched."""
    return read_to(step, planned(step, reading, experts.gate.shape[0]).depths, experts, dtype)


def read_to(
    step: Step, depths: torch.Tensor, experts: Experts, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Return y as `read` does, with depths that are given, int32 [experts] in tiles; whom nobody picked is not read, however deep."""
    picks = step.picks[: step.valid]
    y = torch.zeros(step.x.shape, dtype=dtype, device=step.x.device)
    for expert in picks[picks >= 0].unique().tolist():
        neurons = int(depths[expert]) * TILE
        rows, slots = (picks == expert).nonzero(as_tuple=True)
        h = hidden(experts, expert, step.x[rows].to(dtype), neurons, dtype)
        out = h @ experts.down.numbers(expert, dtype)[:, :neurons].T
        y.index_add_(0, rows, out * step.weights[rows, slots].to(dtype)[:, None])
    return y
