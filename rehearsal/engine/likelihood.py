"""How probable a practice line finds the tokens of a prompt: the likeliest at each position, as vLLM's `prompt_logprobs` has them.

Made up from the text itself, so that a text is judged alike by every line; what differs is small noise of the boot, more of it among
other requests, and whatever damage a lever does. The sizes are near those that tsw2k/Deepseek-4.1-Flash-Quad-DGX-Sparks reports:
for a restart KL 0.0036 and the same top token in 0.988 (here 0.0033 and 0.978 on the texts of the battery that ships), for EXL3 at
3.5 bits 0.251, 0.853 and +19.5 % perplexity (here, at a damage of 1, 0.24, 0.78 and +18 %).
"""

import math
from random import Random
from typing import NamedTuple
from zlib import crc32

VOCABULARY = 129_280
"""Tokens that the model knows (DeepSeek-V4.1-Flash)."""

_KNOWN = 40  # tokens drawn at each position; what is left of the probability is spread over the others
_SPREAD = 2.0
_SURE = 16.0  # by how much one token can be likelier than the others drawn: most places of a text leave little choice
_RIGHT = 0.93  # how often that is the one that stands there
_REST = 1.0
_BOOT, _BATCH = 0.10, 0.05  # noise of a logit
_DAMAGE, _KEPT = (
    1.2,
    0.35,
)  # noise of a logit at a damage of 1, and what of its loss the right token is spared
_CONTEXT = 4


class State(NamedTuple):
    """What the probabilities depend on besides the text."""

    seed: int
    boot: int
    batch: int
    """Differs with every batch; 0 for a request that runs alone."""
    damage: float


def scores(pieces: list[str], top: int, state: State) -> list[dict[str, dict[str, float | int | str]] | None]:
    """Return for each token the one that stands there and the `top` likeliest; None for the first."""
    befores = ("".join(pieces[max(at - _CONTEXT, 0) : at]) for at in range(1, len(pieces)))
    rest = (_position(before, piece, top, state) for before, piece in zip(befores, pieces[1:], strict=True))
    return [None, *rest]


def _position(before: str, piece: str, top: int, state: State) -> dict[str, dict[str, float | int | str]]:
    place = f"{before}\0{piece}"
    words = Random(place)  # noqa: S311 - the probabilities of a made-up model
    own = crc32(piece.encode()) % VOCABULARY
    logits = {own: words.gauss(0, _SPREAD)}
    while len(logits) < _KNOWN:
        logits.setdefault(words.randrange(VOCABULARY), words.gauss(0, _SPREAD))
    likely = own if words.random() < _RIGHT else list(logits)[1]
    logits[likely] += _SURE * words.random()
    _disturb(logits, own, place, state)
    most = max(logits.values())
    total = sum(math.exp(value - most) for value in logits.values()) + math.exp(_REST - most)
    ranked = sorted(logits, key=lambda token: -logits[token])
    shown = [own, *(token for token in ranked[:top] if token != own)]
    return {
        str(token): {
            "logprob": logits[token] - most - math.log(total),
            "rank": ranked.index(token) + 1,
            "decoded_token": piece if token == own else f"<{token}>",
        }
        for token in shown
    }


def _disturb(logits: dict[int, float], own: int, place: str, state: State) -> None:
    """Add the noise of the boot and of the batch, and what the checkpoint lost."""
    boot = Random(f"{state.seed}/{state.boot}/{place}")  # noqa: S311
    batch = Random(f"{state.batch}/{place}")  # noqa: S311
    checkpoint = Random(f"damage/{place}")  # noqa: S311
    for token in logits:
        logits[token] += boot.gauss(0, _BOOT)
        if state.batch:
            logits[token] += batch.gauss(0, _BATCH)
        if state.damage:
            logits[token] += checkpoint.gauss(0, _DAMAGE * state.damage)
    logits[own] += _KEPT * state.damage
