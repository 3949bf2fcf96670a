"""What goes wrong with a line that serves, and that no gate sees: its answers, its cache, its speed or its company.

Short answers stay sound, so that a boot's questions are answered and the line counts as ready; a bench meets it all the same.
"""

from collections.abc import Iterator
from itertools import islice, repeat

from rehearsal import model

LONG = 100
"""Tokens up to which an answer is sound; from there on it may go wrong. Ours, chosen: a bench asks for more."""

ONSET = 750
"""Tokens of long answers after which a line that turns bad does: somewhere within a short bench. Ours, chosen."""

_SMOKED = 150
"""Tokens of long answers that a boot's questions may take: until then all is well. Ours, chosen."""

_WORD = " dekameters"
"""What an over-cut model wrote 108 times in 2,300 characters while it read faster and faster (reported, "An elephant through a
straw")."""
_PAST_END = (
    "<|im_end|>",
    "\n",
    "<|im_start|>",
    "user",
    "\n",
    "And",
    " of",
    " Spain",
    "?",
    "<|im_end|>",
    "\n",
)
LOOPING = 5.8
"""Tokens a step yields in a loop: nearly every draft is right. Ours, chosen below the most there can be."""


def spoiled(ails: str, words: Iterator[str], most: int, long_tokens: int) -> Iterator[str]:
    """Return the answer that the line gives in place of `words`; `long_tokens` is what it has made of long answers so far."""
    if most <= LONG:
        return words
    match ails:
        case "loops" if long_tokens >= _SMOKED:
            return _then(words, repeat(_WORD))
        case "runs-past-end" if long_tokens >= _SMOKED:
            return _then(words, iter(_PAST_END))
        case "goes-empty" if long_tokens >= ONSET:
            return iter(())
    return words


def mean(ails: str, usual: float, most: int) -> float:
    """Return the tokens that a step yields: a loop is guessed nearly always."""
    return LOOPING if ails == "loops" and most > LONG else usual


def gemv_gb_s(ails: str, usual: float, long_tokens: int) -> float:
    """Return the figure that binds the line now."""
    return min(usual, model.GEMV_SLOW_GB_S) if is_slow(ails, long_tokens) else usual


def is_slow(ails: str, long_tokens: int) -> bool:
    """Whether the line has turned slow by now."""
    return ails == "turns-slow" and long_tokens >= ONSET


def cached(ails: str, found: int, tokens: int) -> int:
    """Return how many tokens of a prompt come from the cache: nearly all of a long one where an earlier bench left it warm."""
    return tokens * 49 // 50 if ails == "warm-cache" and tokens > 1000 else found


def _then(words: Iterator[str], rest: Iterator[str]) -> Iterator[str]:
    """Yield the first words, then the rest, then what is left of the words; an answer that ends before is left alone."""
    first = tuple(islice(words, LONG))
    yield from first
    if len(first) == LONG:
        yield from rest
        yield from words
