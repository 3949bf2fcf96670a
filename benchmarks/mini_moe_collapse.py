"""Which replies of the mini model collapsed, and which raised the proxy's alarm.

A collapse is told without the alarm: by a window of 64 tokens that the whole model finds more improbable, or whose token triples repeat more,
than in 999 of 1,000 replies that it wrote itself at that temperature. So its own rate is about 0.2 %, and is measured on other replies.
The alarm is the proxy's own code (proxy.watch) fed with what a client would get: each token's text, and its log-probability as served.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from proxy.depth import Depths
from proxy.said import Said
from proxy.thresholds import Limits as Alarmed
from proxy.watch import Watch

WINDOW = 64
"""Tokens: a third of a reply; ours."""
ODD = 0.001
"""Part of the whole model's replies that lies beyond each limit; ours."""

_spoken: list[str] = []

Marks = tuple[int, str, Depths]
"""Tokens at which an alarm was raised (0: never), why, and the depths of the reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Beyond either a reply has collapsed: mean loss of a window, in nats, and share of different triples in one."""

    loss: float
    fresh: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The worst windows of replies, [replies] each."""

    loss: NDArray[np.float64]
    fresh: NDArray[np.float64]

    def collapsed(self, limits: Limits) -> NDArray[np.bool_]:
        """Return which replies lie beyond a limit."""
        return (self.loss > limits.loss) | (self.fresh < limits.fresh)


def shape(losses: torch.Tensor, replies: torch.Tensor) -> Shape:
    """Return the worst windows of replies, [replies, tokens] each."""
    mean = losses.double().unfold(1, WINDOW, 1).mean(2).max(1).values
    numbers = replies.long()
    triples = (numbers[:, :-2] << 26) + (numbers[:, 1:-1] << 13) + numbers[:, 2:]
    windows = triples.unfold(1, WINDOW - 2, 1)
    # Part by part: all windows of all replies at once would be sorted in one piece.
    fresh = torch.cat([_different(part).min(1).values for part in windows.split(512)])
    return Shape(loss=mean.cpu().numpy(), fresh=fresh.cpu().double().numpy())


def limits(healthy: Shape) -> Limits:
    """Return what a thousandth of the whole model's replies lies beyond, each way."""
    return Limits(
        loss=float(np.quantile(healthy.loss, 1 - ODD)), fresh=float(np.quantile(healthy.fresh, ODD))
    )


def watched(
    pool: Executor, replies: torch.Tensor, logprobs: torch.Tensor, alarmed: Alarmed, parts: int = 64
) -> list[Marks]:
    """Feed the proxy's watch with every reply; a pool takes them part by part."""
    tokens, told = replies.int().cpu().numpy(), logprobs.float().cpu().numpy()
    cut = [part for part in np.array_split(np.arange(len(tokens)), parts) if len(part)]
    jobs = [pool.submit(_watched, tokens[part], told[part], alarmed) for part in cut]
    return [one for job in jobs for one in job.result()]


def speak(words: Sequence[str]) -> None:
    """Set the text of each token in a worker of the pool, once: its initializer."""
    _spoken[:] = words


def _watched(tokens: NDArray[np.int32], told: NDArray[np.float32], alarmed: Alarmed) -> list[Marks]:
    return [_one(row.tolist(), logs.tolist(), alarmed) for row, logs in zip(tokens, told, strict=True)]


def _one(tokens: Sequence[int], told: Sequence[float], alarmed: Alarmed) -> Marks:
    watch, marks = Watch(limits=alarmed), (0, "")
    for at, (token, logprob) in enumerate(zip(tokens, told, strict=True), start=1):
        sign = watch.feed(Said(text=_spoken[token], logprobs=(logprob,)))
        if sign and not marks[0]:
            marks = (at, sign.reason)
    return (*marks, watch.depths)


def _different(windows: torch.Tensor) -> torch.Tensor:
    ordered = windows.sort(dim=2).values
    return ((ordered.diff(dim=2) != 0).sum(2) + 1).float() / windows.shape[2]
