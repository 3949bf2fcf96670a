"""Restart floor: what the mini model changes against itself when a conversation is decoded in other company, in bf16, without any cut."""

from collections.abc import Sequence
from typing import Any

import torch

import mini_moe_replies as replies
from mini_moe import Mini


def restart_floor(model: Mini, talks: torch.Tensor) -> dict[str, Any]:
    """Decode the same tokens in bf16 in other company, and tell the KL between the two: what a restart changes without any cut."""
    model.dtype = torch.bfloat16
    rows = torch.arange(len(talks), device=talks.device)
    chance = torch.Generator(talks.device).manual_seed(5)
    mixed = torch.randperm(len(talks), generator=chance, device=talks.device)
    before = replies.decoded(model, talks, rows.split(64))
    answer = {"the same again": _restarted(model, talks, before, rows.split(64))}
    for size in (64, 48, 16, 4, 1):
        some = mixed[: min(len(mixed), 6 * size)]
        answer[f"other company, {size} rows"] = _restarted(model, talks, before, some.split(size))
    for layer in model.layers:
        layer.experts.backwards = True
    answer["picks added backwards"] = _restarted(model, talks, before, rows.split(64))
    for layer in model.layers:
        layer.experts.backwards = False
    model.dtype = torch.float32
    return answer


def _restarted(
    model: Mini, talks: torch.Tensor, before: torch.Tensor, batches: Sequence[torch.Tensor]
) -> dict[str, float]:
    after, seen = replies.decoded(model, talks, batches), torch.cat(list(batches))
    kl = torch.stack([replies.divergence(before[one], after[one]).double() for one in seen])
    flips = torch.stack([(before[one].argmax(-1) != after[one].argmax(-1)).double() for one in seen])
    return {
        "kl": float(kl.mean()), "worst conversation": float(kl.mean(1).max()), "conversations": len(seen),
        "most likely token differs": float(flips.mean()),
    }  # fmt: skip
