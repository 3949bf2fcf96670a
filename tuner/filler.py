"""The text of cold prefills: as long as asked for, another for each seed, the same on every machine. Pure.

Passages are real text, shuffled: rows of an n-gram table are looked up as in service. Words are filler, as other benches send
it; on filler acceptance and table look-ups mean little.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

LEAST_WORDS = 20
"""Different words of a text; ours: below, every row of an n-gram table is hot and the prompt is one loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filler:
    """What prefill prompts are made of: passages parted by blank lines, or words parted by spaces.

    `characters_a_token` is a planning figure only: what is reported is the server's own count.
    """

    text: str
    unit: Literal["passages", "words"]
    characters_a_token: float

    def __post_init__(self) -> None:
        if len(set(self.text.split())) < LEAST_WORDS:
            raise ValueError(
                f"filler: {len(set(self.text.split()))} different words, wanted at least {LEAST_WORDS}"
            )
        if not 0 < self.characters_a_token < math.inf:
            raise ValueError(
                f"filler: characters_a_token is {self.characters_a_token}, wanted a number above 0"
            )


def fill(filler: Filler, seed: str, tokens: int) -> str:
    """Return a text of about `tokens` tokens, a pure function of filler and seed."""
    wanted = int(tokens * filler.characters_a_token)
    parts = _passages(filler, seed) if filler.unit == "passages" else _words(filler, seed)
    mark = "\n\n" if filler.unit == "passages" else " "
    found: list[str] = []
    length = 0
    for part in parts:
        found.append(part)
        length += len(part) + len(mark)
        if length >= wanted:
            break
    return mark.join(found)[:wanted]


def _passages(filler: Filler, seed: str) -> Iterator[str]:
    """Yield all passages in an order drawn from the seed, and again in another order when a prompt is longer than the text."""
    passages = [one for one in filler.text.split("\n\n") if one.strip()]
    for turn in count():
        draws = _draws(f"{seed}/{turn}")
        # 32 bits of a draw order the passages; two alike fall back to their place in the text.
        yield from (
            text for _, _, text in sorted((next(draws), at, text) for at, text in enumerate(passages))
        )


def _words(filler: Filler, seed: str) -> Iterator[str]:
    """Yield words and, as every ninth item, a number below 1000: hardly any run of words comes twice within a prompt."""
    words = sorted(set(filler.text.split()))
    for position, draw in enumerate(_draws(seed)):
        yield str(draw % 1000) if position % 9 == 8 else words[draw % len(words)]


def _draws(seed: str) -> Iterator[int]:
    """Yield 32-bit numbers from SHA-256 in counter mode: the same on every machine and Python."""
    for counter in count():
        block = hashlib.sha256(f"{seed}/{counter}".encode()).digest()
        yield from (int.from_bytes(block[at : at + 4]) for at in range(0, len(block), 4))
