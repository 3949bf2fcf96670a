"""Divergence: how far two scorings of the same texts lie apart, position by position.

Of each position only the likeliest tokens are known, so the distributions are compared as far as these tell. What is given as
KL is the least that any two distributions with these figures can have (nats), see `least_kl`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.quality.logprobs import Position, Scored

_SWEEPS = 6
"""Turns of the minimisation in `least_kl`; the second changes the sixth decimal at most on real scores."""

_TINY = 1e-12
"""A probability that counts as none: below what a float32 softmax gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """One position: least KL(reference || other) in nats, whether the likeliest token is the same, and the loss.

    `loss` is how much less probable (nats) the other finds the token that stands there.
    """

    kl: float
    agrees: bool
    loss: float


def compare(reference: Scored, other: Scored) -> tuple[Apart, ...]:
    """Compare two scorings of one text.

    Raises:
        ValueError: they are of other tokens: another text, tokenizer or form of answer.

    """
    tokens = [[one.token for one in scored.positions] for scored in (reference, other)]
    if reference.text != other.text or tokens[0] != tokens[1]:
        raise ValueError(
            f"text {reference.text} was read as {len(tokens[0])} tokens by the reference and as {len(tokens[1])} others now: "
            "another tokenizer, or another form of answer"
        )
    return tuple(
        Apart(kl=least_kl(one, two), agrees=one.top[0][0] == two.top[0][0], loss=one.logprob - two.logprob)
        for one, two in zip(reference.positions, other.positions, strict=True)
    )


def mean_loss(scored: Sequence[Scored]) -> float:
    """Return the mean negative log-likelihood of a token in nats; its exponential is the perplexity."""
    losses = [-at.logprob for one in scored for at in one.positions]
    return sum(losses) / len(losses)


def perplexity(scored: Sequence[Scored]) -> float:
    """Return e to the mean loss over all tokens of these texts."""
    return math.exp(mean_loss(scored))


def least_kl(reference: Position, other: Position) -> float:
    """Return the least KL(reference || other) of any distributions with these likeliest tokens, in nats.

    Three kinds of tokens: those that both name, whose terms are exact; those that one side alone names, of which the other
    only tells that none is likelier than its own least likely; and the rest. Joining tokens into one bucket never raises KL
    (data processing inequality), and the unknown mass of two buckets is set, within what it can be, to where KL is least. KL is
    convex in both, so turning from one to the other comes to that place.
    """
    ours, theirs = _probabilities(reference), _probabilities(other)
    both = ours.keys() & theirs.keys()
    exact = sum(ours[name] * math.log(ours[name] / theirs[name]) for name in both)
    mine, rest = _unshared(ours, both)
    other_mine, other_rest = _unshared(theirs, both)
    # x: what the other may give to the tokens that only the reference names; y: the reverse.
    most_x = min(other_rest, (len(ours) - len(both)) * min(theirs.values()))
    most_y = min(rest, (len(theirs) - len(both)) * min(ours.values()))
    x = y = 0.0
    for _ in range(_SWEEPS):
        x = min(most_x, _share(other_rest, mine, rest - y))
        y = min(most_y, _share(rest, other_mine, other_rest - x))
    terms = _term(mine, x) + _term(y, other_mine) + _term(rest - y, other_rest - x)
    return max(exact + terms, 0.0)


def _probabilities(position: Position) -> Mapping[str, float]:
    """Return the known tokens: the likeliest, and the one that stands there only where it is among them."""
    return {name: max(math.exp(value), _TINY) for name, value in position.top}


def _unshared(known: Mapping[str, float], both: set[str]) -> tuple[float, float]:
    """Return the mass of the tokens that only this side names, and of all that it does not name."""
    return sum(value for name, value in known.items() if name not in both), max(1 - sum(known.values()), 0.0)


def _share(whole: float, part: float, rest: float) -> float:
    """Return the part of `whole` that stands to it as `part` to `part + rest`."""
    return whole * part / (part + rest) if part + rest > 0 else 0.0


def _term(mass: float, against: float) -> float:
    return mass * math.log(mass / max(against, _TINY)) if mass > 0 else 0.0
