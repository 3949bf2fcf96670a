"""Policy: how deep each expert is read in a step. A policy sees what the router chose in one layer and answers with depths."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from sparkctl_vllm import policy as by_rank
from sparkctl_vllm.loads import UNIT
from sparkctl_vllm.plan_file import Plan
from sparkctl_vllm.refusal import demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """What the router chose for one layer in one step, the same on every rank.

    `picks` int64 [rows, top-k] and `weights` float32 [rows, top-k]; `rows` is how many rows carry load, as a number on the device: those
    from there on are padding, and have no part in `loads`, int32 [experts] in units of 2^-20.
    """

    layer: int
    picks: torch.Tensor
    weights: torch.Tensor
    rows: torch.Tensor
    loads: torch.Tensor


class Policy(Protocol):
    """Depths of a step. What it computes must not wait for the device, and must be the same to the last bit on every rank."""

    def depths(self, routed: Routed) -> torch.Tensor:
        """Return int32 [ranks, experts]: tiles of each rank's slice to read, from its first. Floors and caps are laid on afterwards."""
        ...


def squares(weights: torch.Tensor) -> torch.Tensor:
    """Return int64 squared router weights in units of 2^-20, at least 1; `loads.squared` in torch."""
    return torch.round(weights * weights * UNIT).clamp(min=1).long()


def loads(picks: torch.Tensor, weights: torch.Tensor, rows: torch.Tensor, experts: int) -> torch.Tensor:
    """Return each expert's load, int32 [experts]: integers are added, so neither order nor device changes a bit."""
    alive = torch.arange(len(picks), device=picks.device)[:, None] < rows
    units = torch.where(alive, squares(weights), 0)
    total = torch.zeros(experts, dtype=torch.int64, device=picks.device)
    return total.index_add_(0, picks.flatten(), units.flatten()).int()


class WaterFilled:
    """Tiles whose load times importance is above the price of this layer and step size (`waterfill.cleared`, for all ranks at once)."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        meaning = plan.meaning
        tables = [torch.from_numpy(plan.tables[f"D.L{layer}"]) for layer in range(meaning.layers)]
        self.tables = [table.float().contiguous().to(device) for table in tables]
        self.price = torch.from_numpy(plan.tables["price"]).float().to(device)
        self.tiles = [width // meaning.tile for width in meaning.widths]

    def depths(self, routed: Routed) -> torch.Tensor:
        """Return how many tiles of each slice clear the price."""
        price = self.price[routed.layer].index_select(0, routed.rows.reshape(1))
        worth = routed.loads.float()[:, None] * self.tables[routed.layer] > price
        return torch.stack([of_rank.sum(1) for of_rank in worth.split(self.tiles, dim=1)]).int()


class RouterRank:
    """The ladder of this layer and step size, by the best place that any row's router gives an expert (`router_rank`); every slice alike."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        demand(
            "ladder" in plan.tables,
            "SPARKCTL_BUDGET_POLICY=router-rank",
            "a plan without ladders",
            "one with them",
            "plan anew with slices of equal width",
        )
        table = torch.from_numpy(plan.tables["ladder"].astype("int32"))
        self.ladders = torch.cat((table, torch.zeros_like(table[..., :1])), dim=2).to(device)
        self.ranks, self.tiles = len(plan.meaning.widths), plan.meaning.widths[0] // plan.meaning.tile

    def depths(self, routed: Routed) -> torch.Tensor:
        """Return each slice's depths by rank."""
        ladder = self.ladders[routed.layer].index_select(0, routed.rows.reshape(1))[0]
        how = by_rank.RouterRank(ladder=ladder, experts=len(routed.loads), tiles=self.tiles)
        return how.depths(routed.picks, routed.weights, routed.rows).expand(self.ranks, -1)


POLICIES: Mapping[str, Callable[[Plan, torch.device], Policy]] = {
    "water-filled": WaterFilled,
    "router-rank": RouterRank,
}
"""By the name that SPARKCTL_BUDGET_POLICY gives."""


def named(name: str, plan: Plan, device: torch.device) -> Policy:
    """Return the policy of a name."""
    demand(name in POLICIES, "SPARKCTL_BUDGET_POLICY", repr(name), ", ".join(POLICIES))
    return POLICIES[name](plan, device)
