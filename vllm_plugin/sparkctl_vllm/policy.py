"""Policy: how deep a step reads each of a layer's experts, from the router's picks and weights; on the device, with no way back to the host.

Two of them behind one call, so that they can be compared at equal bytes: water-filled (what an expert weighs in this step, at a price) and
router rank (the best place it takes in any row's order). Both combine rows by integers, a sum and a minimum, so every rank reads alike; both
can be captured in a graph, where `valid` is a tensor. Definitions: `sparkctl_vllm.reference.planned`, `sparkctl_vllm.router_rank`.
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch

from sparkctl_vllm.loads import UNIT
from sparkctl_vllm.refusal import demand
from sparkctl_vllm.router_rank import Ladder, checked

Rows: TypeAlias = "int | torch.Tensor"
"""Valid rows of a step; rows behind them are padding. A tensor of one integer where the step is captured."""


class Policy(Protocol):
    """What a layer's step reads."""

    @property
    def tiles(self) -> int:
        """Tiles of a whole expert."""

    def depths(self, picks: torch.Tensor, weights: torch.Tensor, valid: Rows) -> torch.Tensor:
        """Return int32 [experts], in tiles, 0 where no valid row picked it; picks int32 and weights float32 [rows, top-k].

        A negative pick is another rank's.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterFilled:
    """Tiles worth more than the price, at least `floor`: importance float32 [experts, tiles], price a float or float32 tensor of one."""

    importance: torch.Tensor
    price: float | torch.Tensor
    floor: int = 1

    @property
    def tiles(self) -> int:
        """Tiles of a whole expert."""
        return int(self.importance.shape[1])

    def depths(self, picks: torch.Tensor, weights: torch.Tensor, valid: Rows) -> torch.Tensor:
        """Return depths by load."""
        experts = len(self.importance)
        squares = torch.round(weights * weights * UNIT).clamp(min=1).to(torch.int32)
        total = torch.zeros(experts + 1, dtype=torch.int32, device=picks.device)
        total.index_add_(0, _places(picks, valid, experts), squares.flatten())
        loads = total[:experts]
        worth = loads.float()[:, None] * self.importance > self.price
        deep = worth.sum(1).clamp(min=self.floor)
        return torch.where(loads > 0, deep, 0).to(torch.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterRank:
    """Tiles by rank: `ladder` int32 [top-k + 1], the last 0 for experts that nobody picked."""

    ladder: torch.Tensor
    experts: int
    tiles: int

    def depths(self, picks: torch.Tensor, weights: torch.Tensor, valid: Rows) -> torch.Tensor:
        """Return depths by the best rank."""
        top_k = picks.shape[1]
        rank = weights.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        best = torch.full((self.experts + 1,), top_k, dtype=torch.int64, device=picks.device)
        best.scatter_reduce_(0, _places(picks, valid, self.experts), rank.flatten(), "amin")
        return self.ladder[best[: self.experts]]


def router_rank(ladder: Ladder, experts: int, tiles: int, device: torch.device) -> RouterRank:
    """Return the policy of a ladder, checked at the door."""
    demand(experts >= 1, "experts", experts, "at least 1")
    steps = torch.tensor([*checked(ladder, len(ladder), tiles), 0], dtype=torch.int32, device=device)
    return RouterRank(ladder=steps, experts=experts, tiles=tiles)


def read_table(depths: torch.Tensor, tiles: int) -> torch.Tensor:
    """Return importances at which every kernel that reads by price reads these depths at price 0: 1 before the depth, 0 behind it.

    float32 [experts, tiles]; a load is at least 1, so load times 1 is above 0, and load times 0 is not.
    """
    return (torch.arange(tiles, device=depths.device) < depths[:, None]).float()


def _places(picks: torch.Tensor, valid: Rows, experts: int) -> torch.Tensor:
    """Return where each pick counts, int64 [rows * top-k]: padding and other ranks' experts go behind the last expert."""
    live = (torch.arange(len(picks), device=picks.device) < valid)[:, None] & (picks >= 0)
    return torch.where(live, picks, experts).flatten().long()
