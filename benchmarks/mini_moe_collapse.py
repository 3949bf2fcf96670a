"""Which replies of the mini model collapsed, which raised the proxy's alarm, and from where each is read whole then.

A collapse is told without the alarm: by a window of 64 tokens that the whole model finds more improbable, or whose token triples repeat more,
than in 999 of 1,000 replies that it wrote itself at that temperature. So its own rate is about 0.2 %, and is measured on other replies.
The alarm is the proxy's own code (proxy.watch) fed with what a client would get: each token's text, and its log-probability as served.
"""

from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a watch says of a reply: the token that raised its first alarm, counted from 1 (0: none did), why, and the tokens before its first sign."""

    at: int
    reason: str
    clean: int
    depths: Depths

    def kept(self, hold: int) -> int:
        """Return the tokens that stand when the reply is taken up, as proxy.reply has it where `hold` tokens are held back.

        The token that raised the alarm never stands; what was sent does, and what is held back does before the first sign.
        """
        return max(self.clean, self.at - 1 - hold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Beyond either a reply has collapsed: mean loss of a window, in nats, and share of different triples in one."""

    loss: float
    fresh: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The windows of replies, [replies, windows] each: mean loss, and share of different triples."""

    loss: NDArray[np.float64]
    fresh: NDArray[np.float64]

    def collapsed(self, limits: Limits) -> NDArray[np.bool_]:
        """Return which replies have a window beyond a limit."""
        return self._beyond(limits).any(1)

    def fallen(self, limits: Limits) -> NDArray[np.int64]:
        """Return the tokens of each reply at which its first window beyond a limit has ended, 0 where there is none."""
        beyond = self._beyond(limits)
        return np.where(beyond.any(1), beyond.argmax(1) + WINDOW, 0)

    def _beyond(self, limits: Limits) -> NDArray[np.bool_]:
        return (self.loss > limits.loss) | (self.fresh < limits.fresh)


def shape(losses: torch.Tensor, replies: torch.Tensor) -> Shape:
    """Return the windows of replies, [replies, tokens] each."""
    mean = losses.double().unfold(1, WINDOW, 1).mean(2)
    numbers = replies.long()
    triples = (numbers[:, :-2] << 26) + (numbers[:, 1:-1] << 13) + numbers[:, 2:]
    windows = triples.unfold(1, WINDOW - 2, 1)
    # Part by part: all windows of all replies at once would be sorted in one piece.
    fresh = torch.cat([_different(part) for part in windows.split(512)])
    return Shape(loss=mean.cpu().numpy(), fresh=fresh.cpu().double().numpy())


def limits(healthy: Shape) -> Limits:
    """Return what a thousandth of the whole model's replies lies beyond, each way."""
    return Limits(
        loss=float(np.quantile(healthy.loss.max(1), 1 - ODD)),
        fresh=float(np.quantile(healthy.fresh.min(1), ODD)),
    )


def watched(
    pool: Executor,
    replies: torch.Tensor,
    logprobs: torch.Tensor,
    watches: Mapping[str, Alarmed],
    parts: int = 64,
) -> dict[str, list[Mark]]:
    """Feed the proxy's watch with every reply, once for the limits of each name; a pool takes them part by part."""
    tokens, told = replies.int().cpu().numpy(), logprobs.float().cpu().numpy()
    cut = [part for part in np.array_split(np.arange(len(tokens)), parts) if len(part)]
    jobs = [pool.submit(_watched, tokens[part], told[part], tuple(watches.values())) for part in cut]
    found = [one for job in jobs for one in job.result()]
    return {name: [marks[place] for marks in found] for place, name in enumerate(watches)}


def speak(words: Sequence[str]) -> None:
    """Set the text of each token in a worker of the pool, once: its initializer."""
    _spoken[:] = words


def _watched(
    tokens: NDArray[np.int32], told: NDArray[np.float32], watches: Sequence[Alarmed]
) -> list[list[Mark]]:
    return [
        [_one(row.tolist(), logs.tolist(), one) for one in watches]
        for row, logs in zip(tokens, told, strict=True)
    ]


def _one(tokens: Sequence[int], told: Sequence[float], alarmed: Alarmed) -> Mark:
    watch, at, first = Watch(limits=alarmed), 0, None
    for place, (token, logprob) in enumerate(zip(tokens, told, strict=True), start=1):
        sign = watch.feed(Said(text=_spoken[token], logprobs=(logprob,)))
        if sign and not first:
            at, first = place, sign
    return Mark(
        at=at, reason=first.reason if first else "", clean=first.clean_tokens if first else 0, depths=watch.depths
    )  # fmt: skip


def _different(windows: torch.Tensor) -> torch.Tensor:
    ordered = windows.sort(dim=2).values
    return ((ordered.diff(dim=2) != 0).sum(2) + 1).float() / windows.shape[2]
