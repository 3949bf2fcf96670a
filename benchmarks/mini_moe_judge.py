"""Policies judged: each reads conversations whose KL against the whole model is measured, and whose loss is predicted, token by token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import mini_moe_replies as replies
from mini_moe import Mini
from mini_moe_cuts import Depth, Reading, company

CHUNK = 64
"""Conversations that are computed together: a multiple of every step size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A named way to read less."""

    name: str
    depth: Depth
    picks: int | None = None


def judge(
    model: Mini, talks: torch.Tensor, rows: int, policies: Sequence[Policy], tables: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Run policies over conversations; every KL is that of the same tokens under the whole model."""
    device, shape = model.embed.device, model.shape
    told = tuple(torch.from_numpy(one).to(device) for one in tables.values())
    tiles = told[0].shape[2]
    kept: dict[str, list[tuple[torch.Tensor, Reading]]] = {one.name: [] for one in policies}
    for number, part in enumerate(talks.split(CHUNK)):
        whole = predictions(model, part, None)
        for one in policies:
            reading = Reading(
                company=company(len(part), rows, number, device), experts=shape.n_routed_experts, tiles=tiles,
                depth=one.depth, picks=one.picks, predicting=told,
            )  # fmt: skip
            after = predictions(model, part, reading)
            kept[one.name].append((replies.divergence(whole, after).double().cpu(), reading))
    return {name: _summary(parts, list(tables)) for name, parts in kept.items()}


def predictions(model: Mini, talks: torch.Tensor, cut: Reading | None) -> torch.Tensor:
    """Return log-probabilities behind every token of the replies, [conversations, REPLY, vocabulary]."""
    model.cut_by(cut)
    with torch.no_grad():
        logs = model(talks)[:, replies.PROMPT :].float().log_softmax(-1)
    model.cut_by(None)
    return logs


def _summary(parts: list[tuple[torch.Tensor, Reading]], kinds: list[str]) -> dict[str, Any]:
    kl = torch.cat([one for one, _ in parts])
    talks = kl.mean(1)
    chance = np.random.default_rng(0)
    means = [float(talks[chance.integers(len(talks), size=len(talks))].mean()) for _ in range(1000)]
    low, high = np.percentile(means, [2.5, 97.5])
    answer = {
        "bytes": sum(one.read for _, one in parts) / sum(one.whole for _, one in parts),
        "kl": float(kl.mean()), "low": float(low), "high": float(high), "median": float(kl.median()),
        "worst conversation": float(talks.max() / talks.mean()),
    }  # fmt: skip
    for place, kind in enumerate(kinds):
        damage = torch.cat(
            [one.damage[place].view(-1, replies.PROMPT + replies.REPLY).cpu() for _, one in parts]
        )
        spread = damage[:, replies.PROMPT :].double()
        answer[f"predicted, {kind}"] = float(spread.mean())
        answer[f"correlation of conversations, {kind}"] = float(np.corrcoef(spread.mean(1), talks)[0, 1])
        answer[f"worst conversation, {kind}"] = float(spread.mean(1).max() / spread.mean())
    return answer
