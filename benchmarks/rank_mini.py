"""The mini model with its routed experts over ranks: does it say the same as on one?

Every rank holds its slice of every expert (tensor parallel) or whole experts (expert parallel), cuts its own neurons by its own table, and the
ranks' sums are added; with all shards in one process the same model is computed without a network. Conversations and drop costs are the model's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import mini_moe_replies as replies
from mini_moe import Experts, Mini, loaded
from mini_moe_cuts import Company, Priced, Reading, company
from mini_moe_judge import predictions
from rank_layouts import Layout
from sparkctl_vllm.calibration import checkpoint, survey
from sparkctl_vllm.calibration.cost import cost
from sparkctl_vllm.calibration.order import importance, order
from sparkctl_vllm.calibration.record import recorded
from sparkctl_vllm.experts import TILE

ROWS = 16
"""Conversations that are decoded together."""
Reduce = Callable[[torch.Tensor], torch.Tensor]


class Shared(nn.Module):
    """The shards that this process holds of one layer's experts: their outputs are summed, then over the ranks."""

    def __init__(self, shards: Sequence[Experts], reduce: Reduce) -> None:
        super().__init__()
        self.shards, self.reduce, self.layer = nn.ModuleList(shards), reduce, shards[0].layer

    def forward(self, x: torch.Tensor, picks: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return the sum over all ranks, as `Experts.forward` would over one."""
        parts = [one(x, picks, weights).float() for one in self.shards]
        return self.reduce(torch.stack(parts).sum(0)).to(x.dtype)


def shared(model: Mini, layout: Layout, places: np.ndarray, ranks: Sequence[int], reduce: Reduce) -> Mini:
    """Put the shards of these ranks in place of every layer's experts; `places` [layers, experts, neurons] is the order of the neurons."""
    for layer in model.layers:
        shards = [_shard(model, layer.experts, layout, places[layer.experts.layer], rank) for rank in ranks]
        layer.experts = Shared(shards, reduce)
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What all ranks start from, made once: conversations, the neurons' order [layers, experts, neurons], importances [layers, experts, tiles of all ranks]."""

    talks: torch.Tensor
    places: np.ndarray
    worth: np.ndarray

    def written(self, path: Path) -> None:
        """Write it for the ranks to read."""
        np.savez(path, talks=self.talks.cpu().numpy(), places=self.places, worth=self.worth)

    @classmethod
    def read(cls, path: Path, device: torch.device) -> "Prepared":
        """Read it."""
        with np.load(path) as held:
            talks = torch.from_numpy(held["talks"]).to(device)
            return cls(talks=talks, places=held["places"], worth=held["worth"])


def prepared(folder: Path, layout: Layout, work: Path, conversations: int, device: torch.device) -> Prepared:
    """Let the model write conversations and calibrate on them, for the widths of a layout."""
    model = loaded(folder).to(device)
    chance = torch.Generator().manual_seed(1)
    prompts = torch.randint(model.shape.vocab_size, (4096,), generator=chance).to(device)
    talks = replies.written(model, prompts, conversations, conversations, seed=2)
    held = recorded(model, model, list(talks.split(ROWS)), work / "recording", prompt=replies.PROMPT)
    files = checkpoint.opened(folder)
    mine = fitted(model, layout)
    places, worth = [], []
    for _, moments in survey.surveyed(files, held, files.layers, work / "survey"):
        costs = cost(moments).aligned
        places.append(order(costs, mine.widths or (mine.neurons,)))
        worth.append(importance(costs, places[-1], TILE))
    return Prepared(talks=talks, places=np.stack(places), worth=np.stack(worth))


def spoken(  # noqa: PLR0913, PLR0917 - what a forward depends on
    model: Mini, talks: torch.Tensor, layout: Layout, ranks: Sequence[int], worth: np.ndarray, share: float
) -> torch.Tensor:
    """Return the log-probabilities of the replies; `share` is the part of the tiles that the price leaves, 1 for whole reads."""
    place = company(len(talks), ROWS, 0, talks.device)
    for layer in model.layers:
        for one, rank in zip(layer.experts.shards, ranks, strict=True):
            one.cut = _cut(model, layout, place, worth, rank, share) if share < 1 else None
    return predictions(model, talks, None)


def distance(one: torch.Tensor, other: torch.Tensor) -> dict[str, float]:
    """Return how far two sets of log-probabilities are apart."""
    return {
        "kl": float(replies.divergence(one, other).double().mean()),
        "largest difference": float((one - other).abs().max()),
        "most likely token differs": float((one.argmax(-1) != other.argmax(-1)).double().mean()),
    }


def compared(folder: Path, layout: Layout, rank: int, reduce: Reduce, start: Prepared) -> dict[str, Any]:
    """Run one rank's part: the model over all ranks, against all shards in this process and against the unsplit model."""
    device, talks = start.talks.device, start.talks
    model = loaded(folder).to(device)
    layout = fitted(model, layout)
    whole = predictions(model, talks, None)
    everyone = range(layout.ranks)
    alone = shared(loaded(folder).to(device), layout, start.places, everyone, lambda partial: partial)
    over = shared(loaded(folder).to(device), layout, start.places, (rank,), reduce)
    answer: dict[str, Any] = {
        "layout": layout.name, "conversations": len(talks), "widths": layout.widths, "held": layout.held,
    }  # fmt: skip
    for name, share in (("full", 1.0), ("half", 0.5)):
        one = spoken(alone, talks, layout, everyone, start.worth, share)
        many = spoken(over, talks, layout, (rank,), start.worth, share)
        again = spoken(over, talks, layout, (rank,), start.worth, share)
        answer[f"{name}: over ranks against in one process"] = distance(one, many)
        answer[f"{name}: over ranks, the same again"] = distance(many, again)
        answer[f"{name}: against the unsplit model"] = distance(whole, many)
    return answer


def fitted(model: Mini, layout: Layout) -> Layout:
    """Return the layout with the mini model's sizes: slices in whole tiles, the outer ranks wider where they cannot be equal."""
    shape, ranks = model.shape, layout.ranks
    if not layout.widths:
        held = (shape.n_routed_experts // ranks,) * ranks
        return Layout(
            name=layout.name, experts=shape.n_routed_experts, held=held, neurons=shape.moe_intermediate_size
        )
    tiles = shape.moe_intermediate_size // TILE
    wide, first = tiles % ranks, (ranks - tiles % ranks) // 2
    widths = [TILE * (tiles // ranks + (first <= one < first + wide)) for one in range(ranks)]
    if "uneven" in layout.name and not wide:
        widths[0], widths[-1] = widths[0] + TILE, widths[-1] - TILE
    return Layout(
        name=layout.name, experts=shape.n_routed_experts, widths=tuple(widths),
        neurons=shape.moe_intermediate_size,
    )  # fmt: skip


def _shard(model: Mini, experts: Experts, layout: Layout, places: np.ndarray, rank: int) -> Experts:
    part = Experts(model.shape, experts.layer)
    index = torch.from_numpy(places).to(experts.w1.device)
    if layout.widths:
        begin = sum(layout.widths[:rank])
        index = index[:, begin : begin + layout.widths[rank]]
    part.w1 = nn.Parameter(torch.take_along_dim(experts.w1.data, index[..., None], dim=1))
    part.w3 = nn.Parameter(torch.take_along_dim(experts.w3.data, index[..., None], dim=1))
    part.w2 = nn.Parameter(torch.take_along_dim(experts.w2.data, index[:, None], dim=2))
    mine = layout.range_of(rank)
    for held in part.parameters():  # another rank's experts are not there
        held.data[: mine.start] = 0
        held.data[mine.stop :] = 0
    return part


def _cut(  # noqa: PLR0913, PLR0917 - what a reading is made of
    model: Mini, layout: Layout, place: Company, worth: np.ndarray, rank: int, share: float
) -> Reading:
    tiles = [layout.tiles(one) for one in range(layout.ranks)] if layout.widths else [worth.shape[2]]
    begin = sum(tiles[:rank]) if layout.widths else 0
    mine = worth[:, :, begin : begin + layout.tiles(rank)]
    table = torch.from_numpy(np.ascontiguousarray(mine)).to(place.step.device)
    prices = tuple(float(np.quantile(one * 2.0**20 * 0.1, 1 - share)) for one in worth)
    return Reading(
        company=place, experts=model.shape.n_routed_experts, tiles=layout.tiles(rank),
        depth=Priced(importance=table, prices=prices),
    )  # fmt: skip
