"""Bounds: against published ones, and against walks that were drawn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.factorial.bounds import Look, bound, spent


def looks(*information: int, most: int) -> tuple[Look, ...]:
    """Looks at these numbers of boots."""
    return tuple(Look(information=boots, share=min(1.0, boots / most)) for boots in information)


def bounds(error: float, held: tuple[Look, ...]) -> list[float]:
    """The bound of every look."""
    return [bound(error, held[:end]) for end in range(1, len(held) + 1)]


def test_bounds_are_the_published_ones() -> None:
    """Five equal looks at one-sided 2.5 %: 4.8769, 3.3569, 2.6803, 2.2898, 2.0310 (O'Brien-Fleming spending; R, ldbounds)."""
    found = bounds(0.025, looks(20, 40, 60, 80, 100, most=100))
    assert found == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=2e-4)


def test_one_look_spends_all() -> None:
    """A single look at the end is the fixed test."""
    assert bound(0.05, looks(40, most=40)) == pytest.approx(1.6449, abs=1e-4)


@pytest.mark.parametrize("information", [(32, 36, 44, 60, 64), (8, 64), (30, 31, 32, 33, 64)])
def test_a_useless_lever_passes_as_often_as_was_spent(information: tuple[int, ...]) -> None:
    """Of 400,000 walks of white steps the share that passes any bound is the error, within four standard errors."""
    error, walks = 0.02, 400_000
    held = looks(*information, most=64)
    random = np.random.default_rng(5)
    total, done, passed = np.zeros(walks), 0, np.zeros(walks, dtype=bool)
    for look, limit in zip(held, bounds(error, held), strict=True):
        total += math.sqrt(look.information - done) * random.standard_normal(walks)
        done = look.information
        passed |= total / math.sqrt(done) > limit
    assert abs(passed.mean() - error) < 4 * math.sqrt(error * (1 - error) / walks)


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-4, 0.2), st.lists(st.integers(4, 100), min_size=1, max_size=8, unique=True))
def test_bounds_never_lie_below_the_fixed_test(error: float, information: list[int]) -> None:
    """Whoever looks more often has to ask for more at each look, and spending rises to the error."""
    held = looks(*sorted(information), most=100)
    fixed = bound(error, looks(100, most=100))
    assert min(bounds(error, held)) >= fixed - 1e-6
    assert spent(error, 0.0) == 0.0
    assert spent(error, 0.3) <= spent(error, 0.7) <= spent(error, 1.0) == pytest.approx(error)


def test_looks_without_new_boots_are_refused() -> None:
    """Bounds are for rising information."""
    with pytest.raises(ValueError, match="more at each look"):
        bound(0.05, (Look(information=20, share=0.2), Look(information=20, share=0.4)))
