"""Water-filling, price, rank fill and caps, against brute force over every choice of depths."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkctl_vllm import caps, price, rankfill, waterfill
from sparkctl_vllm.loads import UNIT, loads, squared
from sparkctl_vllm.refusal import Refusal

SMALL = st.integers(0, 40)


@st.composite
def layers(draw):
    """Loads and non-increasing importances of up to four experts of up to three tiles."""
    experts, tiles = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    loads_ = np.array(draw(st.lists(SMALL, min_size=experts, max_size=experts)), dtype=np.int32)
    table = draw(
        st.lists(st.lists(SMALL, min_size=tiles, max_size=tiles), min_size=experts, max_size=experts)
    )
    return loads_, -np.sort(-np.array(table, dtype=np.float32), axis=1)


def every_choice(loads_, importance, floor=1):
    """Every vector of depths that reads at least the floor of each loaded expert and nothing of the others."""
    tiles = importance.shape[1]
    ranges = [range(min(floor, tiles), tiles + 1) if load > 0 else range(1) for load in loads_]
    return [np.array(depths) for depths in product(*ranges)]


@settings(max_examples=200, deadline=None)
@given(layers(), st.integers(0, 12), st.integers(1, 2))
def test_no_choice_of_as_many_tiles_loses_less(layer, budget, floor):
    """The oracle reads within the budget (or just the floors) and no other choice within it loses less."""
    loads_, importance = layer
    mine = waterfill.filled(loads_, importance, budget, floor)
    least = sum(min(floor, importance.shape[1]) for load in loads_ if load > 0)
    assert mine.sum() <= max(budget, least)
    allowed = [one for one in every_choice(loads_, importance, floor) if one.sum() <= max(budget, least)]
    best = min(waterfill.lost(loads_, importance, one) for one in allowed)
    assert waterfill.lost(loads_, importance, mine) == pytest.approx(best)


@settings(max_examples=200, deadline=None)
@given(layers(), st.floats(0, 2000))
def test_what_clears_a_price_is_the_best_of_its_size(layer, at):
    """Proposition 1: the depths that clear one price lose no more than any other choice of as many tiles."""
    loads_, importance = layer
    mine = waterfill.cleared(loads_, importance, at)
    for other in every_choice(loads_, importance):
        if other.sum() <= mine.sum():
            assert (
                waterfill.lost(loads_, importance, mine) <= waterfill.lost(loads_, importance, other) + 1e-12
            )


@settings(max_examples=100, deadline=None)
@given(layers(), st.lists(st.integers(0, 6), min_size=2, max_size=2), st.randoms())
def test_each_gpu_fills_its_own_budget(layer, budgets, random):
    """Proposition 2: no choice that keeps every GPU within its budget loses less, and a GPU with tiles left spends its whole budget."""
    loads_, importance = layer
    ranks = np.array([random.randrange(2) for _ in loads_])
    mine = rankfill.rank_filled(loads_, importance, ranks, budgets)
    least = [int((loads_[ranks == rank] > 0).sum()) for rank in range(2)]
    most = [max(one, floor) for one, floor in zip(budgets, least, strict=True)]
    allowed = [
        one
        for one in every_choice(loads_, importance)
        if all(one[ranks == rank].sum() <= most[rank] for rank in range(2))
    ]
    best = min(waterfill.lost(loads_, importance, one) for one in allowed)
    assert waterfill.lost(loads_, importance, mine) == pytest.approx(best)
    for rank in range(2):
        there = int((loads_[ranks == rank] > 0).sum()) * importance.shape[1]
        assert mine[ranks == rank].sum() == min(most[rank], there)


def routed(rng, steps=40, rows=16, experts=32, tiles=6):
    """Loads of made-up steps, and sorted lognormal importances."""
    made = []
    for _ in range(steps):
        picks = np.stack([rng.choice(experts, 4, replace=False) for _ in range(rows)])
        made.append(loads(picks, rng.random((rows, 4), dtype=np.float32), experts, rows))
    table = -np.sort(-np.exp(1.2 * rng.standard_normal((experts, tiles))), axis=1)
    return made, table.astype(np.float32)


def test_a_fixed_price_reads_the_budget_on_average():
    """The calibrated price reads at most the budget on average, and a price a little lower reads more than that."""
    steps, table = routed(np.random.default_rng(1))
    at = price.fixed(steps, table, budget=90.0)
    read = [int(waterfill.cleared(one, table, at).sum()) for one in steps]
    assert 85 < np.mean(read) <= 90
    assert np.mean([waterfill.cleared(one, table, at * 0.999).sum() for one in steps]) > np.mean(read) - 1e-9


def test_a_fixed_price_is_nearly_as_good_as_the_oracle():
    """On made-up routing the fixed price loses at most a tenth more than filling every step alone, at no more tiles."""
    steps, table = routed(np.random.default_rng(2), steps=100)
    at = price.fixed(steps, table, budget=90.0)
    mine = sum(waterfill.lost(one, table, waterfill.cleared(one, table, at)) for one in steps)
    oracle = sum(waterfill.lost(one, table, waterfill.filled(one, table, 90)) for one in steps)
    assert oracle <= mine * 1.1
    assert mine <= oracle * 1.1


def test_the_controller_finds_back_after_a_drift():
    """Routing whose loads grew fourfold is back within 3 % of the budget after some hundred steps."""
    rng = np.random.default_rng(3)
    steps, table = routed(rng, steps=300)
    control = price.Controller(price=price.fixed(steps, table, budget=90.0), budget=90.0)
    read = []
    for one in steps:
        tiles = int(waterfill.cleared(one * 4, table, control.now).sum())
        read.append(tiles)
        control = control.after(tiles)
    assert np.mean(read[:10]) > 100
    assert np.mean(read[200:]) == pytest.approx(90, rel=0.03)


def test_the_controller_stays_within_reach():
    """A step that reads nothing for ever moves the price by at most its reach."""
    control = price.Controller(price=2.0, budget=10.0)
    for _ in range(1000):
        control = control.after(0)
    assert control.now == pytest.approx(2.0 / 16)


def test_caps_hold_at_every_step_size():
    """Where the budget's price would cost more than eps a token, a lower price is taken, and only there."""
    rng = np.random.default_rng(4)
    few, table = routed(rng, rows=2)
    many, _ = routed(rng, rows=16)
    replayed, budgets = {2: few, 16: many}, {2: 7.0, 16: 90.0}
    free = caps.capped(replayed, table, budgets, eps=1e9)
    eps = (free[2].damage + free[16].damage) / 2
    held = caps.capped(replayed, table, budgets, eps=eps)
    for rows in replayed:
        assert held[rows].damage <= eps
        over = free[rows].damage > eps
        assert (held[rows].price < free[rows].price) == over
        assert (held[rows].tiles > free[rows].tiles) == over
    assert any(one.damage > eps for one in free.values())


def test_a_cap_binds_where_floors_alone_are_the_budget():
    """The price that reads the budget is then boundless; the cap must still find the one that loses eps, not read everything."""
    table = np.array([[2.0, 1.0], [2.0, 1.0]], dtype=np.float32)
    steps = [np.array([UNIT, UNIT // 2], dtype=np.int32), np.array([UNIT // 4, UNIT], dtype=np.int32)]
    held = caps.capped({1: steps}, table, {1: 2.0}, eps=0.5)[1]
    assert held.damage == pytest.approx(
        0.375
    )  # what the lighter expert's second tile is worth, in both steps
    assert held.tiles == 3


def test_loads_do_not_depend_on_the_order_of_rows():
    """Integers add to the same sum in every order; padding rows and another rank's experts weigh nothing."""
    rng = np.random.default_rng(5)
    picks = rng.integers(-1, 9, (64, 6))
    weights = rng.random((64, 6), dtype=np.float32)
    first = loads(picks, weights, 9, 50)
    order = rng.permutation(50)
    assert (loads(picks[order], weights[order], 9, 50) == first).all()
    assert first.sum() == squared(weights[:50])[picks[:50] >= 0].sum()


def test_one_square_is_one_rounding():
    """0.5 weighs a quarter of the unit; the smallest weight still counts."""
    assert squared(np.array([0.5, 1e-6, 1.0], dtype=np.float32)).tolist() == [UNIT // 4, 1, UNIT]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: squared(np.array([np.nan], dtype=np.float32)), "router weights: NaN"),
        (lambda: squared(np.array([5.0], dtype=np.float32)), "at most 4"),
        (lambda: loads(np.array([[9]]), np.ones((1, 1), np.float32), 9, 1), "below 9"),
        (lambda: loads(np.array([[0]]), np.ones((1, 1), np.float32), 9, 2), "valid rows: 2"),
        (lambda: waterfill.check(np.array([[1.0, 2.0]], np.float32)), "non-increasing"),
        (lambda: waterfill.check(np.array([[np.nan]], np.float32)), "finite"),
        (lambda: waterfill.check(np.array([[-1.0]], np.float32)), "0 or more"),
        (lambda: price.fixed([], np.ones((1, 1), np.float32), 1), "replayed steps: 0"),
        (
            lambda: rankfill.rank_filled(
                np.ones(1, np.int32), np.ones((1, 1), np.float32), np.array([1]), [1]
            ),
            "ranks",
        ),
        (lambda: caps.capped({}, np.ones((1, 1), np.float32), {}, eps=0.0), "eps"),
    ],
)
def test_bad_input_is_refused(call, says):
    """Each is refused with its name and what is allowed."""
    with pytest.raises(Refusal, match=says):
        call()
