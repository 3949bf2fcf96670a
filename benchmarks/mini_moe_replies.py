"""Replies of the mini model: conversations that it writes itself, and the same tokens once more in other company.

A conversation is a prompt from held-out text and a reply sampled at temperature 1: decode-like text in the model's own words. Decoding goes
token by token over a cache, in batches of the size that is asked for, as a server does.
"""

from collections.abc import Sequence

import torch

from mini_moe import Mini

PROMPT, REPLY = 64, 192


def written(model: Mini, held: torch.Tensor, conversations: int, rows: int, seed: int) -> torch.Tensor:
    """Return conversations [conversations, PROMPT + REPLY]; prompts are drawn from `held`, tokens on the model's device."""
    device = model.embed.device
    chance = torch.Generator(device).manual_seed(seed)
    starts = torch.randint(len(held) - PROMPT, (conversations, 1), generator=chance, device=device)
    prompts = held[starts + torch.arange(PROMPT, device=device)].long()
    return torch.cat([_replied(model, part, chance) for part in prompts.split(rows)])


def decoded(model: Mini, tokens: torch.Tensor, batches: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the log-probabilities of every reply token's place, [conversations, REPLY, vocabulary], decoded in these batches of rows.

    The tokens are given, so two calls differ by nothing but the company in which a conversation was computed.
    """
    answer = torch.empty(len(tokens), REPLY, model.shape.vocab_size, device=tokens.device)
    with torch.no_grad():
        for rows in batches:
            part, cache = tokens[rows], model.cache(len(rows), PROMPT + REPLY)
            predicted = model(part[:, :PROMPT], cache)[:, -1]
            for place in range(REPLY):
                answer[rows, place] = predicted.float().log_softmax(-1)
                at = PROMPT + place
                predicted = model(part[:, at : at + 1], cache, at)[:, 0]
    return answer


def divergence(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Return KL(before || after) in nats over the last dimension, of log-probabilities."""
    return (before.exp() * (before - after)).sum(-1)


def _replied(model: Mini, prompts: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    whole = torch.cat((prompts, prompts.new_zeros(len(prompts), REPLY)), dim=1)
    cache = model.cache(len(prompts), PROMPT + REPLY)
    with torch.no_grad():
        predicted = model(prompts, cache)[:, -1]
        for place in range(PROMPT, PROMPT + REPLY):
            whole[:, place] = torch.multinomial(predicted.float().softmax(-1), 1, generator=chance)[:, 0]
            predicted = model(whole[:, place : place + 1], cache, place)[:, 0]
    return whole
