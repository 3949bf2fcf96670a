"""Blocks: balance, mirrors, order, and what is never on together."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.factorial.blocks import arming, block, shuffled
from tuner.factorial.factors import factors, needs, standing
from tuner.lever import Ladder, Lever

Make = Callable[..., Ladder]
Name = Callable[..., Lever]


@pytest.mark.parametrize("count", [1, 3, 4, 5, 12, 17, 33])
def test_every_boot_counts_for_every_lever(count: int, ladder_of: Make, lever: Name) -> None:
    """Each lever is on in half of the runs, independent of every other; a run's mirror image stands beside it."""
    names = [f"l{at}" for at in range(count)]
    ladder = ladder_of(*map(lever, names))
    runs = block(ladder, factors(ladder, names), (), "seed")
    signs = np.array([[1 if name in run else -1 for name in names] for run in runs])
    assert (signs.T @ signs == len(runs) * np.eye(count, dtype=int)).all()
    assert (signs.sum(axis=0) == 0).all()
    assert (signs[::2] == -signs[1::2]).all()
    assert len(runs) >= 2 * count


def test_main_effects_are_clear_of_two_lever_interactions(ladder_of: Make, lever: Name) -> None:
    """Resolution IV: no column is like the product of two others."""
    names = [f"l{at}" for at in range(8)]
    ladder = ladder_of(*map(lever, names))
    runs = block(ladder, factors(ladder, names), (), "x")
    signs = np.array([[1 if name in run else -1 for name in names] for run in runs])
    products = np.array([signs[:, i] * signs[:, j] for i in range(8) for j in range(i)])
    assert (products @ signs == 0).all()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), data=st.data())
def test_conflicts_and_requirements_hold_in_every_run(
    ladder_of: Make, lever: Name, seed: int, data: st.DataObject
) -> None:
    """Whatever the ties between levers: nobody runs beside a rival or without what it needs, and the stack is always on."""
    names = [f"l{at}" for at in range(data.draw(st.integers(2, 9)))]
    levers = [
        lever(
            name,
            requires=tuple(data.draw(st.lists(st.sampled_from(names[:at]), max_size=1))) if at else (),
            conflicts=tuple(
                one for one in data.draw(st.lists(st.sampled_from(names), max_size=2)) if one != name
            ),
        )
        for at, name in enumerate(names)
    ]
    ladder = ladder_of(*levers)
    runs = block(ladder, factors(ladder, names), (), f"{seed}")
    known = {one.id: one for one in levers}
    for run in runs:
        assert all(set(known[name].requires) <= set(run) for name in run)
        assert not any(rival in run for name in run for rival in known[name].conflicts)
        assert run == standing(ladder, run)


def test_rivals_take_turns(ladder_of: Make, lever: Name) -> None:
    """Three values of one setting are each on in a sixth of the runs, and never together."""
    values = [lever(name, conflicts=tuple({"a", "b", "c"} - {name})) for name in "abc"]
    ladder = ladder_of(*values, lever("d"), lever("e"))
    groups = factors(ladder, ["a", "b", "c", "d", "e"])
    assert groups == (("a", "b", "c"), ("d",), ("e",))
    runs = [run for at in range(3) for run in block(ladder, groups, (), f"{at}")]
    counts = [sum(name in run for run in runs) for name in "abcde"]
    assert counts[3:] == [12, 12]
    assert sum(counts[:3]) == 12
    assert min(counts[:3]) >= 3


def test_seed_and_place_decide_the_order() -> None:
    """The same key gives the same order, another key another; nothing is lost."""
    assert shuffled(range(20), "a") == shuffled(range(20), "a") != shuffled(range(20), "b")
    assert sorted(shuffled(range(20), "a")) == list(range(20))
    # Pinned: a climb that is resumed years later must plan the boots that it planned.
    assert shuffled("abcdef", "1/arming") == ("b", "f", "d", "c", "e", "a")


def test_arming_alone_boots_each_lever_once_with_what_it_needs(ladder_of: Make, lever: Name) -> None:
    """Base, half of the levers, base, the other half; a child comes with its parent, a profile not at all."""
    ladder = ladder_of(lever("a"), lever("b", requires=("a",)), lever("c"), lever("p", kind="profile"))
    runs = arming(ladder, 1)
    assert sorted(runs) == [(), (), ("a",), ("a", "b"), ("c",)]
    assert (runs[0], runs[3]) == ((), ())
    assert needs(ladder, "b") == ("a",)
