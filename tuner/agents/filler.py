"""Text for traces that have none: segments of a prompt, made of real words, so that equal parts of two prompts are equal text.

A segment is a seed and a number of tokens; of two segments with one seed the shorter is the beginning of the longer. Lengths are as
near as characters a token allow; what is reported is the server's own count. Words in this order mean nothing: drafts are accepted
and n-gram tables looked up as for no text that anybody writes.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tuner.agents.trace import Scope, Session

_KEPT = 1 << 16
"""Texts of segments that are kept; ours: some tens of MB, more than the blocks of the sessions that are live at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a prompt: about `tokens` tokens that follow from `seed` alone."""

    seed: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """The words to draw from, and how many characters of them the server counts as one token."""

    words: tuple[str, ...]
    characters_a_token: float

    def __post_init__(self) -> None:
        if len(set(self.words)) < 100:
            raise ValueError(f"{len(set(self.words))} different words, wanted at least 100")
        if self.characters_a_token <= 0:
            raise ValueError(f"{self.characters_a_token} characters a token, wanted a number above 0")


def segments(session: Session, i: int, block: int, scope: Scope) -> tuple[Segment, ...]:
    """Return the prompt of one call as segments: by its block ids, else by what it keeps of an earlier one."""
    tokens = session.calls[i].prompt_tokens
    fresh: list[Segment] = []
    while (base := _base(session, i)) is not None:
        kept = min(session.calls[i].keep or 0, session.calls[base].prompt_tokens)
        if tokens > kept:
            fresh.insert(0, Segment(seed=f"{session.id}/{i}", tokens=tokens - kept))
        tokens, i = min(tokens, kept), base
    owner = "file" if scope == "file" else session.id
    old = _cut(tuple(Segment(seed=f"{owner}#{one}", tokens=block) for one in session.calls[i].h), tokens)
    rest = tokens - sum(one.tokens for one in old)
    return (*old, *([Segment(seed=f"{session.id}/{i}", tokens=rest)] if rest else []), *fresh)


def text(parts: tuple[Segment, ...], voice: Voice) -> str:
    """Return the text of a prompt."""
    return "".join(
        _text(part.seed, round(part.tokens * voice.characters_a_token), voice.words) for part in parts
    )


def _base(session: Session, i: int) -> int | None:
    """Return the call whose prompt this one keeps a part of: its own agent's last, else the last it came after."""
    call = session.calls[i]
    if call.h or not call.keep:
        return None
    own = (at for at in reversed(range(i)) if session.calls[at].agent == call.agent)
    return next(own, call.after[-1] if call.after else None)


def _cut(parts: tuple[Segment, ...], tokens: int) -> tuple[Segment, ...]:
    found: list[Segment] = []
    for part in parts:
        if tokens <= 0:
            break
        found.append(Segment(seed=part.seed, tokens=min(part.tokens, tokens)))
        tokens -= part.tokens
    return tuple(found)


@lru_cache(maxsize=_KEPT)
def _text(seed: str, characters: int, words: tuple[str, ...]) -> str:
    pieces: list[str] = []
    length = 0
    for draw in _draws(seed):
        if length >= characters:
            break
        pieces.append(f"{words[draw % len(words)]} ")
        length += len(pieces[-1])
    return "".join(pieces)[:characters]


def _draws(seed: str) -> Iterator[int]:
    """Yield 16-bit numbers from SHA-256 in counter mode: the same on every machine and Python."""
    counter = 0
    while True:
        block = hashlib.sha256(f"{seed}/{counter}".encode()).digest()
        yield from (int.from_bytes(block[at : at + 2]) for at in range(0, len(block), 2))
        counter += 1
