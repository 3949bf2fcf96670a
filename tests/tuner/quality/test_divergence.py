"""How far two scorings lie apart: exact where everything is known, a bound where only the likeliest tokens are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.quality.divergence import compare, least_kl, perplexity
from tuner.quality.logprobs import Position, Scored

WEIGHTS = st.lists(st.floats(0.001, 1000), min_size=12, max_size=12)


def _shares(weights: list[float]) -> list[float]:
    return [one / sum(weights) for one in weights]


def _position(shares: list[float], top: int) -> Position:
    ranked = sorted(range(len(shares)), key=lambda at: -shares[at])[:top]
    return Position(
        token="0",
        logprob=math.log(shares[0]),
        top=tuple((str(at), math.log(shares[at])) for at in ranked),
    )


def _kl(ours: list[float], theirs: list[float]) -> float:
    return sum(one * math.log(one / two) for one, two in zip(ours, theirs, strict=True))


@given(WEIGHTS, WEIGHTS)
def test_with_every_token_known_it_is_the_divergence(ours: list[float], theirs: list[float]) -> None:
    """Then nothing is left to bound."""
    one, two = _shares(ours), _shares(theirs)
    assert least_kl(_position(one, 12), _position(two, 12)) == pytest.approx(_kl(one, two), abs=1e-6)


@given(WEIGHTS, WEIGHTS, st.integers(1, 11))
def test_it_is_never_more_than_the_divergence(ours: list[float], theirs: list[float], top: int) -> None:
    """Whatever the tokens that nobody named have: what is reported as an excess is one."""
    one, two = _shares(ours), _shares(theirs)
    assert 0 <= least_kl(_position(one, top), _position(two, top)) <= _kl(one, two) + 1e-6


@given(WEIGHTS, st.integers(1, 12))
def test_a_distribution_is_not_apart_from_itself(weights: list[float], top: int) -> None:
    """Not by the rest either."""
    one = _position(_shares(weights), top)
    assert least_kl(one, one) == pytest.approx(0, abs=1e-9)


def test_disjoint_likeliest_tokens_are_far_apart() -> None:
    """A model that says something else altogether must not hide in the rest: the other gave these tokens little."""
    ours = Position(token="a", logprob=-0.1, top=(("a", math.log(0.9)), ("b", math.log(0.05))))
    theirs = Position(token="a", logprob=-9.0, top=(("x", math.log(0.9)), ("y", math.log(0.05))))
    assert least_kl(ours, theirs) > 2.0


def test_scorings_of_other_tokens_are_refused() -> None:
    """Another tokenizer cuts the text otherwise; then no position means the same."""
    one = Scored(text="t", mix="alone", positions=(_position([0.5, 0.5], 2),))
    two = Scored(text="t", mix="alone", positions=(*one.positions, *one.positions))
    with pytest.raises(ValueError, match="1 tokens by the reference"):
        compare(one, two)


def test_perplexity_is_the_inverse_of_the_mean_probability() -> None:
    """The geometric one, over all tokens of all texts."""
    half, tenth = _position([0.5, 0.5], 2), _position([0.1, 0.9], 2)
    texts = [
        Scored(text="a", mix="alone", positions=(half, half)),
        Scored(text="b", mix="alone", positions=(tenth, tenth)),
    ]
    assert perplexity(texts) == pytest.approx(1 / math.sqrt(0.5 * 0.1))
