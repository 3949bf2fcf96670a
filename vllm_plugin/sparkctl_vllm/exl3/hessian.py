"""Hessian: E[x x'] of what an expert's matrices read, from a layer of a recording: hidden states for gate and up, activations for down.

An expert is asked by a few tokens of a recording, far fewer than it has inputs, so its own mean is drawn towards that over a sample of all the
layer's tokens, as calibration does with drop costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sparkctl_vllm.calibration.checkpoint import Expert
from sparkctl_vllm.calibration.cost import PRIOR_TOKENS
from sparkctl_vllm.calibration.recording import Routed

SAMPLE = 1024
"""Tokens of the layer that stand for all of it. Ours: with 64 tokens' weight their noise is small beside that of an expert's own."""
CHUNK = 4096
"""Rows that are multiplied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What some experts of a layer were asked: Hessians float32 [experts, in, in], and by how many tokens."""

    hidden: torch.Tensor
    """Of gate and up."""
    activations: torch.Tensor
    """Of down."""
    tokens: tuple[int, ...]


def asked(experts: Sequence[Expert], numbers: Sequence[int], routed: Routed) -> Asked:
    """Return the Hessians of these experts, whose numbers in the layer are given, on the device that holds them."""
    device = experts[0].gate.device
    sample = routed.x[torch.linspace(0, len(routed.x) - 1, min(SAMPLE, len(routed.x))).long()]
    prior = _squared(sample.to(device, torch.float32)) / len(sample)
    hidden, activations, tokens = [], [], []
    for expert, number in zip(experts, numbers, strict=True):
        rows = (routed.picks == number).any(1).nonzero()[:, 0]
        mine = routed.x[rows].to(device, torch.float32)
        hidden.append(_drawn(_squared(mine), prior, len(rows)))
        tried = _squared(expert.hidden(sample))
        activations.append(_drawn(_through(expert, mine), tried / len(sample), len(rows)))
        tokens.append(len(rows))
    return Asked(hidden=torch.stack(hidden), activations=torch.stack(activations), tokens=tuple(tokens))


def worth(experts: Sequence[Expert], numbers: Sequence[int], routed: Routed) -> float:
    """Return what one pick of these experts is worth on average: 1/2 r^2 out' F out, in nats, with F the diagonal of the Fisher information.

    It is what the pick would cost if its output were lost, so times a relative error of the output what the error costs (gain squared).
    """
    fisher = torch.from_numpy(routed.fisher).float() if routed.fisher is not None else None
    total, picks = 0.0, 0
    for expert, number in zip(experts, numbers, strict=True):
        rows, slots = (routed.picks == number).nonzero(as_tuple=True)
        if fisher is None or not len(rows):
            continue
        for part, weights in zip(rows.split(CHUNK), routed.weights[rows, slots].split(CHUNK), strict=True):
            out = expert.hidden(routed.x[part]) @ expert.down.T
            energy = out.square() @ fisher.to(out.device)
            total += float((weights.to(out.device).square() * energy).sum()) / 2
        picks += len(rows)
    return total / picks if picks else 1.0


def _through(expert: Expert, x: torch.Tensor) -> torch.Tensor:
    neurons = len(expert.gate)
    total = torch.zeros(neurons, neurons, device=x.device)
    for part in x.split(CHUNK):
        total += _squared(expert.hidden(part))
    return total


def _squared(rows: torch.Tensor) -> torch.Tensor:
    return rows.T @ rows


def _drawn(total: torch.Tensor, prior: torch.Tensor, tokens: int) -> torch.Tensor:
    return (total + PRIOR_TOKENS * prior) / (tokens + PRIOR_TOKENS)
