"""Replies of the mini model written under a policy of depth: decoded token by token, many steps of so many rows side by side.

The policies are those that serve (sparkctl_vllm.policy): the experts of each step are numbered on from those of the step before, so one call
reads all steps as they would be read one by one. Prompts are read whole, as prefill is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from mini_moe import Mini
from mini_moe_replies import PROMPT, REPLY
from sparkctl_vllm.experts import TILE
from sparkctl_vllm.policy import Policy, Rows

Made = Callable[[int, int], Policy]
"""Layer and steps side by side to the policy that reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Even:
    """Every expert as deep, whatever weighs: `depth` int32 [experts], which need not be one number where the bytes do not divide."""

    depth: torch.Tensor
    tiles: int

    def depths(self, picks: torch.Tensor, weights: torch.Tensor, valid: Rows) -> torch.Tensor:  # noqa: ARG002
        """Return the depth of what was picked."""
        picked = torch.zeros(len(self.depth), dtype=torch.bool, device=picks.device)
        picked[picks.flatten().long()] = True
        return torch.where(picked, self.depth, 0)


@dataclass(slots=True, kw_only=True)
class Steps:
    """A policy a layer at work in steps of `rows` rows: a Cut for `Mini.cut_by`, which tallies on the device."""

    rows: int
    experts: int
    made: Made
    picks: int | None = None
    """Picks that are kept of a row, the heaviest first, their weights scaled up to what all had; all where None."""
    read: list[torch.Tensor] = field(default_factory=list)
    whole: list[torch.Tensor] = field(default_factory=list)
    _known: dict[int, Policy] = field(default_factory=dict)

    def __call__(
        self, layer: int, picks: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the neurons that are kept of each pick, and the weights."""
        steps = len(picks) // self.rows
        how = self._known.setdefault(layer, self.made(layer, steps))
        begin = torch.arange(len(picks), device=picks.device)[:, None] // self.rows * self.experts
        numbered = picks + begin
        kept, scaled = self._fewer(numbered, weights)
        depths = how.depths(torch.where(kept, numbered, -1).int(), scaled, len(picks))
        picked = torch.zeros(steps * self.experts, dtype=torch.bool, device=picks.device)
        picked[numbered.flatten()] = True
        self.read.append(depths.sum())
        self.whole.append(picked.sum() * how.tiles)
        return depths[numbered] * kept * TILE, scaled

    @property
    def share(self) -> float:
        """Bytes read, of those of whole reads."""
        return float(torch.stack(self.read).sum() / torch.stack(self.whole).sum())

    def _fewer(self, picks: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.picks is None:
            return torch.ones_like(picks, dtype=torch.bool), weights
        kept = weights.argsort(1, descending=True).argsort(1) < self.picks
        scaled = weights * kept
        return kept, scaled * (weights.sum(1, keepdim=True) / scaled.sum(1, keepdim=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """Steps over whole conversations in one forward: the tokens at one place of every conversation are a step, prompts are read whole."""

    steps: Steps
    conversations: int
    neurons: int

    def __call__(
        self, layer: int, picks: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the neurons that are kept of each pick, and the weights."""
        shape = (self.conversations, -1, picks.shape[1])
        by_place = [
            one.view(shape).transpose(0, 1)[PROMPT:].reshape(-1, picks.shape[1]) for one in (picks, weights)
        ]
        kept, scaled = torch.full_like(picks, self.neurons).view(shape), weights.clone().view(shape)
        cut = self.steps(layer, by_place[0], by_place[1])
        for whole, part in zip((kept, scaled), cut, strict=True):
            whole[:, PROMPT:] = (
                part.view(-1, self.conversations, picks.shape[1]).transpose(0, 1).to(whole.dtype)
            )
        return kept.view_as(picks), scaled.view_as(weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Conversations and how they came to be: `logprobs` [conversations, REPLY] are the sampled tokens', before temperature, as they were served.

    `logs` float32 [first of them, REPLY, vocabulary] are all log-probabilities of the first conversations.
    """

    talks: torch.Tensor
    logprobs: torch.Tensor
    logs: torch.Tensor


def written(  # noqa: PLR0913 - what a run of decoding is made of
    model: Mini,
    talks: torch.Tensor,
    *,
    cut: Steps | None,
    temperature: float,
    chance: torch.Generator,
    given: torch.Tensor | None = None,
    first: int = 0,
) -> Written:
    """Write replies behind the prompts of `talks` [conversations, PROMPT + REPLY]; `given` tokens of each reply stay as they are."""
    talks = talks.clone()
    device = talks.device
    given = torch.zeros(len(talks), dtype=torch.int64, device=device) if given is None else given
    logprobs = torch.empty(len(talks), REPLY, device=device)
    logs = torch.empty(first, REPLY, model.shape.vocab_size, device=device)
    cache = model.cache(len(talks), PROMPT + REPLY)
    with torch.no_grad():
        predicted = model(talks[:, :PROMPT], cache)[:, -1]
        model.cut_by(cut)
        for place in range(REPLY):
            logits = predicted.float()
            told = logits.log_softmax(-1)
            new = _sampled(logits, temperature, chance)
            token = torch.where(place < given, talks[:, PROMPT + place], new)
            talks[:, PROMPT + place] = token
            logprobs[:, place] = told.gather(1, token[:, None])[:, 0]
            logs[:, place] = told[:first]
            at = PROMPT + place
            predicted = model(talks[:, at : at + 1], cache, at)[:, 0]
        model.cut_by(None)
    return Written(talks=talks, logprobs=logprobs, logs=logs)


def judged(model: Mini, one: Written, chunk: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the whole model says of replies: each token's loss [conversations, REPLY], and KL(whole || served) [first, REPLY]."""
    losses, kls = [], []
    with torch.no_grad():
        for begin in range(0, len(one.talks), chunk):
            part = one.talks[begin : begin + chunk]
            logs = model(part)[:, PROMPT - 1 : -1].float().log_softmax(-1)
            losses.append(-logs.gather(2, part[:, PROMPT:, None])[..., 0])
            served = one.logs[begin : begin + chunk]
            same = logs[: len(served)]
            kls.append((same.exp() * (same - served)).sum(-1))
    return torch.cat(losses), torch.cat(kls)


def prompts(held: torch.Tensor, conversations: int, seed: int) -> torch.Tensor:
    """Draw prompts from held-out text: [conversations, PROMPT + REPLY], replies still empty."""
    chance = torch.Generator(held.device).manual_seed(seed)
    starts = torch.randint(len(held) - PROMPT, (conversations, 1), generator=chance, device=held.device)
    found = held[starts + torch.arange(PROMPT, device=held.device)].long()
    return torch.cat((found, found.new_zeros(conversations, REPLY)), dim=1)


def even(share: float, experts: int, tiles: int) -> list[int]:
    """Return a depth for each expert, all alike but for rounding, so that equally picked experts read this share of the bytes."""
    ends = [round(place * share * tiles) for place in range(experts + 1)]
    return [after - before for before, after in pairwise(ends)]


def _sampled(logits: torch.Tensor, temperature: float, chance: torch.Generator) -> torch.Tensor:
    if temperature == 0:
        return logits.argmax(-1)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=chance)[:, 0]
