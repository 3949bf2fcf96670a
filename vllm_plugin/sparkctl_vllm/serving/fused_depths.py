"""Fused depths: water-filled depths, their cost and their counts in one launch, where a GPU would wait longer for a chain of small ones."""

import torch
import triton

from sparkctl_vllm import depth_kernels
from sparkctl_vllm.serving.binding import Bound
from sparkctl_vllm.serving.ledger import Tails
from sparkctl_vllm.serving.policy import WaterFilled
from sparkctl_vllm.serving.running import Running


class FusedDepths:
    """`Budget.depths` for the water-filled policy."""

    def __init__(
        self, bound: Bound, policy: WaterFilled, tails: Tails, least: torch.Tensor, tiles: torch.Tensor
    ) -> None:
        plan, rank = bound.plan, bound.rank
        self.experts, self.rank = plan.meaning.experts, rank
        self.policy, self.tails, self.least, self.tiles = policy, tails, least.contiguous(), tiles
        self.before = (tiles.cumsum(0) - tiles).int()
        self.width, self.most = int(tiles.sum()), int(tiles.max())

    def __call__(
        self, layer: int, picks: torch.Tensor, weights: torch.Tensor, running: Running
    ) -> torch.Tensor:
        """Return int32 [experts] tiles to read on this rank; picks int32 and weights float32 [rows, top-k]."""
        count, top_k = picks.shape
        ranks, most_rows = running.floors.shape
        depths = torch.empty(self.experts, dtype=torch.int32, device=picks.device)
        depth_kernels.planned[(self.experts,)](
            picks, weights, running.rows, running.floors, self.policy.tables[layer], self.policy.price[layer],
            self.tails.tables[layer], self.least, self.tiles, self.before, depths, running.cost, running.read,
            count, most_rows, self.experts, self.width, self.most, self.rank,
            TOP_K=top_k, PICKS=triton.next_power_of_2(count * top_k), RANKS=ranks, TILES=triton.next_power_of_2(self.most),
        )  # fmt: skip
        return depths
