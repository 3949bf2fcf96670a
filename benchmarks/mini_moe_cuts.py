"""Policies that read fewer bytes of the mini model, applied to conversations that are computed side by side.

Every token of a reply belongs to a step: some conversations are decoded together, each at another place of its reply. Loads and depths are
those of the step, by the rules of sparkctl_vllm, so a forward over whole conversations computes what so many decode steps would. Prompts are
read whole. A policy tallies the tiles that it reads (each expert of a step once) and what it predicts that every token loses.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from mini_moe_replies import PROMPT, REPLY
from sparkctl_vllm.experts import TILE
from sparkctl_vllm.loads import UNIT
from sparkctl_vllm.waterfill import filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """Which step each token belongs to: `step` int64 [tokens], counted from 0, and -1 for prompts; `steps` of them, of `rows` rows."""

    step: torch.Tensor
    steps: int
    rows: int


def company(conversations: int, rows: int, seed: int, device: torch.device, apart: int = 1) -> Company:
    """Put conversations together by `rows`, each begun at another time; only every `apart`-th token of a reply is cut, the others are read whole."""
    chance = torch.Generator().manual_seed(seed)
    seat = torch.randperm(conversations, generator=chance)
    begun = torch.randint(REPLY, (conversations, 1), generator=chance)
    step = (torch.arange(REPLY) + begun) % REPLY + (seat // rows * REPLY)[:, None]
    step[:, torch.arange(REPLY) % apart != apart - 1] = -1
    prompt = torch.full((conversations, PROMPT), -1)
    whole = torch.cat((prompt, step), dim=1).flatten()
    return Company(step=whole.to(device), steps=-(-conversations // rows) * REPLY, rows=rows)


class Depth(Protocol):
    """How deep the experts of a layer are read in each step: loads int64 [steps, experts] to tiles [steps, experts]."""

    def __call__(self, layer: int, loads: torch.Tensor) -> torch.Tensor:
        """Return the depths; what a step did not pick does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Every expert as deep."""

    tiles: int

    def __call__(self, layer: int, loads: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 - the same everywhere
        """Return the depth, whatever the load."""
        return torch.full_like(loads, self.tiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What clears a price: one a layer (they may all be the same); importance [layers, experts, tiles] float32."""

    importance: torch.Tensor
    prices: tuple[float, ...]

    def __call__(self, layer: int, loads: torch.Tensor) -> torch.Tensor:
        """Return the tiles above the price, at least one."""
        worth = loads.float()[..., None] * self.importance[layer] > self.prices[layer]
        return worth.sum(-1).clamp(min=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """The best read of as many tiles in every step and layer; budget [layers] tiles."""

    importance: torch.Tensor
    budgets: tuple[int, ...]

    def __call__(self, layer: int, loads: torch.Tensor) -> torch.Tensor:
        """Return the water-filled depths of each step."""
        table = self.importance[layer].cpu().numpy()
        steps = [filled(one, table, self.budgets[layer]) for one in loads.cpu().numpy().astype(np.int32)]
        return torch.from_numpy(np.stack(steps)).to(loads.device)


@dataclass(slots=True, kw_only=True)
class Reading:
    """A policy at work: a Cut for `Mini.cut_by`, which tallies."""

    company: Company
    experts: int
    tiles: int
    depth: Depth
    tile: int = TILE
    """Neurons of a tile."""
    picks: int | None = None
    """Picks that are kept, the heaviest first; the router weights are scaled up to what they were. All where None."""
    predicting: tuple[torch.Tensor, ...] = ()
    """Tables of importance [layers, experts, tiles] by which every token's loss is predicted."""
    read: int = 0
    whole: int = 0
    damage: list[torch.Tensor] = field(default_factory=list)
    """One [tokens] a table."""

    def __call__(
        self, layer: int, picks: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the neurons that are kept of each pick, and the weights."""
        decoded = self.company.step >= 0
        kept = self._kept(weights) if self.picks else torch.ones_like(weights, dtype=torch.bool)
        kept |= ~decoded[:, None]
        self.whole += (
            int((self._loads(picks, weights, decoded[:, None].expand_as(picks)) > 0).sum()) * self.tiles
        )
        scaled = weights * kept
        scaled = scaled * (weights.sum(1, keepdim=True) / scaled.sum(1, keepdim=True))
        loads = self._loads(picks, scaled, kept & decoded[:, None])
        depths = torch.where(loads > 0, self.depth(layer, loads), 0)
        self.read += int(depths.sum())
        mine = depths[self.company.step.clamp(min=0)[:, None], picks]
        mine = torch.where(decoded[:, None], mine, self.tiles) * kept
        self._predict(layer, picks, weights, mine)
        return mine * self.tile, scaled

    @property
    def share(self) -> float:
        """Bytes read, of those of whole reads."""
        return self.read / self.whole

    def _kept(self, weights: torch.Tensor) -> torch.Tensor:
        rank = weights.argsort(1, descending=True).argsort(1)
        return rank < (self.picks or 0)

    def _loads(self, picks: torch.Tensor, weights: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
        squares = torch.round(weights.float() ** 2 * UNIT).clamp(min=1).long()
        place = self.company.step[:, None] * self.experts + picks
        loads = torch.zeros(self.company.steps * self.experts, dtype=torch.int64, device=picks.device)
        loads.index_add_(0, place[counted], squares[counted])
        return loads.view(self.company.steps, self.experts)

    def _predict(self, layer: int, picks: torch.Tensor, weights: torch.Tensor, depths: torch.Tensor) -> None:
        for place, table in enumerate(self.predicting):
            tails = table[layer].flip(1).cumsum(1).flip(1)
            tails = torch.cat((tails, torch.zeros_like(tails[:, :1])), dim=1)
            lost = (weights.float() ** 2 * tails[picks, depths]).sum(1)
            if place < len(self.damage):
                self.damage[place] += lost
            else:
                self.damage.append(lost)
