"""Calibration's arithmetic against brute force over every token and every choice."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from hypothesis import given, settings
from hypothesis import strategies as st

import mini_moe
from sparkctl_vllm import damage, router_rank, waterfill
from sparkctl_vllm.calibration import checkpoint, ladders, moments, order, recording, replay
from sparkctl_vllm.calibration.cost import UNCUT, cost, shrunk
from sparkctl_vllm.calibration.curve import curve
from sparkctl_vllm.calibration.record import recorded
from sparkctl_vllm.calibration.survey import surveyed
from sparkctl_vllm.loads import UNIT
from sparkctl_vllm.refusal import Refusal

from . import mini

COSTS = st.integers(1, 3).flatmap(
    lambda tiles: st.lists(
        st.lists(st.integers(0, 50), min_size=4 * tiles, max_size=4 * tiles), min_size=1, max_size=3
    )
)


@pytest.fixture(scope="module")
def surveyed_mini(tmp_path_factory):
    """A mini model, its checkpoint, a recording of it and what the survey found."""
    folder = tmp_path_factory.mktemp("mini")
    mini_moe.saved(mini.model(), folder / "checkpoint", {})
    model = mini_moe.loaded(folder / "checkpoint")
    held = recorded(model, model, list(mini.talks(rows=16).split(4)), folder / "recording", prompt=4)
    files = checkpoint.opened(folder / "checkpoint")
    return model, files, held, dict(surveyed(files, held, files.layers, None))


def test_moments_are_those_of_every_token(surveyed_mini):
    """Counts, loads, squares, norms and what F makes of them: token by token, in float64."""
    model, _, held, found = surveyed_mini
    for layer, one in found.items():
        experts, routed, fisher = model.layers[layer].experts, held.routed(layer), held.routed(layer).fisher
        assert len(routed.x) == 16 * 8
        for expert in range(6):
            gate, up, down = (getattr(experts, part).data[expert].double() for part in ("w1", "w3", "w2"))
            count = load = 0.0
            square, weighted, aligned = np.zeros(192), np.zeros(192), np.zeros(192)
            for x, picks, weights, g in zip(
                routed.x.double(),
                routed.picks,
                routed.weights.double(),
                routed.gradient.double(),
                strict=True,
            ):
                for slot in (picks == expert).nonzero().flatten().tolist():
                    h = torch.nn.functional.silu((gate @ x).clamp(max=10)) * (up @ x).clamp(-10, 10)
                    squared = h.square().numpy()
                    aligned += (h * (down.T @ g)).square().numpy()
                    count += 1
                    load += float(weights[slot] ** 2)
                    square += squared
                    weighted += float(weights[slot] ** 2) * squared
            assert one.count[expert] == count
            assert one.load[expert] == pytest.approx(load)
            assert np.allclose(one.square[expert], square, rtol=1e-4)
            assert np.allclose(one.weighted[expert], weighted, rtol=1e-4)
            assert np.allclose(one.aligned[expert], aligned, rtol=1e-3)
            assert np.allclose(one.norm[expert], down.square().sum(0))
            assert np.allclose(one.informed[expert], np.einsum("cn,c,cn->n", down, fisher, down))


def test_costs_are_their_definition(surveyed_mini):
    """Energy is E[h^2] ||w2||^2; nats are half of F times that, F as one number or as its diagonal."""
    *_, found = surveyed_mini
    for one in found.values():
        of, squares = cost(one), shrunk(one)
        assert np.allclose(of.energy, squares * one.norm)
        assert np.allclose(of.scalar, of.energy * one.fisher.mean() / 2)
        assert np.allclose(of.diagonal, squares * one.informed / 2)
        flat = replace(one, fisher=np.full_like(one.fisher, 2.0), informed=one.norm * 2.0)
        assert np.allclose(cost(flat).diagonal, cost(flat).scalar)


def test_a_rare_expert_is_drawn_towards_the_layer_and_read_whole(surveyed_mini):
    """Without a token its squares are the scaled prior; with many the prior vanishes; below the least it is never cut."""
    *_, found = surveyed_mini
    one = found[0]
    never = replace(
        one,
        count=one.count * [0, 1, 1, 1, 1, 1],
        square=one.square * np.array([[0], [1], [1], [1], [1], [1]]),
    )
    prior = never.tried_square / never.tried[:, None]
    scale = never.square.sum() / (never.count[:, None] * prior).sum()
    assert np.allclose(shrunk(never)[0], scale * prior[0])
    often = replace(one, count=one.count * 1e6, square=one.square * 1e6)
    assert np.allclose(shrunk(often), one.square / np.maximum(one.count, 1)[:, None], rtol=1e-3)
    rare = cost(never).rare
    assert rare.tolist() == [True, *(one.count[1:] < 8)]
    flat = np.full((6, 192), 0.01)
    table = order.importance(flat, order.order(flat, (192,)), 64, rare)
    assert (table[rare] == UNCUT / 3).all()
    assert (damage.tails(table) > 0)[rare, 0].all()  # what accounts can still hold
    loads = np.full(6, UNIT // 100, dtype=np.int32)
    assert (waterfill.cleared(loads, table, 0.01 * UNIT * UNCUT / 4)[rare] == 3).all()


@settings(max_examples=150, deadline=None)
@given(COSTS, st.booleans())
def test_no_other_neurons_are_worth_more_than_a_prefix(costs, uneven):
    """Inside each slice, the first tiles hold the dearest neurons; importances fall; no neuron leaves its slice."""
    table = np.array(costs, dtype=np.float64)
    neurons = table.shape[1]
    widths = (4, neurons - 4) if uneven and neurons > 4 else (neurons,)
    places = order.order(table, widths)
    tiles = order.importance(table, places, 4)
    begin = 0
    for width in widths:
        slice_, here = places[:, begin : begin + width], tiles[:, begin // 4 : (begin + width) // 4]
        assert (np.sort(slice_, axis=1) == np.arange(begin, begin + width)).all()
        waterfill.check(here)
        for expert, depth in (
            (expert, depth) for expert in range(len(table)) for depth in range(1, width // 4 + 1)
        ):
            if width <= 8:
                best = max(sum(one) for one in combinations(table[expert, begin : begin + width], depth * 4))
                assert here[expert, :depth].sum() == best
        begin += width


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 8), st.sampled_from([64, 128]))
def test_slices_are_whole_tiles_and_as_even_as_they_can_be(tiles, ranks, tile):
    """They add up, differ by at most a tile, and are refused where a rank would have none."""
    if ranks > tiles:
        with pytest.raises(Refusal, match="ranks"):
            order.even(tiles * tile, ranks, tile)
        return
    widths = order.even(tiles * tile, ranks, tile)
    assert sum(widths) == tiles * tile
    assert max(widths) - min(widths) in {0, tile}
    assert all(width % tile == 0 for width in widths)


def test_the_published_split_is_found():
    """2304 neurons in blocks of 128 over four ranks, and evenly in tiles of 64."""
    assert order.even(2304, 4, 128) == (512, 640, 640, 512)
    assert order.even(2304, 4, 64) == (576, 576, 576, 576)


def test_groups_move_as_a_whole():
    """A group's cost is the sum of its neurons, their order inside it stays."""
    assert order.order(np.array([[1.0, 1, 5, 0, 9, 0]]), (6,), 2).tolist() == [[4, 5, 2, 3, 0, 1]]
    with pytest.raises(Refusal, match="multiples of 4"):
        order.order(np.ones((1, 6)), (6,), 4)


def test_curves_keep_what_their_order_keeps():
    """By hand: two experts, the second asked three times as often, two ranks of unequal width."""
    energy = np.zeros((2, 384))
    energy[0, 300], energy[1, 0], energy[1, 200] = 6.0, 1.0, 1.0
    found = curve(energy, np.array([1.0, 3.0]), (128, 256), 64)
    assert found.read == pytest.approx((1 / 3, 2 / 3, 5 / 6, 1.0))
    assert found.kept["natural"] == pytest.approx((3 / 12, 6 / 12, 12 / 12, 1.0))
    assert found.kept["neurons"] == pytest.approx((1.0, 1.0, 1.0, 1.0))
    assert found.kept["groups of 32"] == pytest.approx((1.0, 1.0, 1.0, 1.0))
    assert found.at("natural", 1 / 6) == pytest.approx(3 / 24)
    assert "blocks of 128" in found.kept
    assert "blocks of 128" not in curve(energy, np.ones(2), (192, 192), 64).kept


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_curves_rise_to_one_and_finer_orders_keep_more(seed):
    """Monotone, 1 at the end, and neurons at least as good as groups, groups at least as good as blocks, at every depth."""
    rng = np.random.default_rng(seed)
    energy = rng.lognormal(0, 1.5, (3, 512))
    found = curve(energy, rng.integers(0, 5, 3).astype(float), (256, 256), 128)
    for kept in found.kept.values():
        assert (np.diff(kept) >= -1e-12).all()
        assert kept[-1] == pytest.approx(1)
    names = ("neurons", "groups of 32", "blocks of 128")
    for finer, coarser in pairwise(names):
        assert all(a >= b - 1e-12 for a, b in zip(found.kept[finer], found.kept[coarser], strict=True))


def routing(seed=0, conversations=9, tokens=7):
    """Routing made up from a seed: two layers of five experts, top-2."""
    layers, experts, top_k = 2, 5, 2
    rng = np.random.default_rng(seed)
    count = conversations * tokens
    picks = np.stack(
        [[rng.permutation(experts)[:top_k] for _ in range(count)] for _ in range(layers)]
    ).astype(np.int32)
    weights = rng.random((layers, count, top_k), dtype=np.float32)
    return recording.Routing(
        picks=picks, weights=weights, conversation=np.repeat(np.arange(conversations, dtype=np.int32), tokens)
    )


def table(seed=0, layers=2, experts=5, tiles=(2, 3)):
    """Importances of two ranks, falling inside each."""
    rng = np.random.default_rng(seed)
    parts = [-np.sort(-rng.random((layers, experts, count)), axis=2) for count in tiles]
    return replay.Slices(table=np.concatenate(parts, axis=2).astype(np.float32), tiles=tiles)


def test_a_replayed_step_is_that_many_conversations():
    """Each step's loads are those of one token of each of T conversations: as many picks, and reproducible."""
    found = replay.drawn(routing(), 5, 4, 20, seed=3)
    assert found.shape == (20, 2, 5)
    assert (found == replay.drawn(routing(), 5, 4, 20, seed=3)).all()
    one = routing(conversations=4, tokens=1)
    whole = replay.drawn(one, 5, 4, 3, seed=1)
    wanted = np.zeros((2, 5))
    np.add.at(wanted, (np.arange(2)[:, None, None], one.picks), np.maximum(np.rint(one.weights**2 * UNIT), 1))
    assert (whole == wanted).all()
    with pytest.raises(Refusal, match="at most 9"):
        replay.drawn(routing(), 5, 10, 1, seed=0)


@pytest.mark.parametrize("share", [0.4, 0.7, 1.0])
def test_prices_read_their_share_and_no_more_than_eps_is_lost(share):
    """Uncapped, the bytes are within the share; capped, every size loses at most eps and reads at least as much."""
    slices = table()
    steps = {rows: replay.drawn(routing(), 5, rows, 30, seed=0) for rows in (1, 4, 8)}
    free = replay.priced(steps, slices, share, 1e9, 1)
    eps = max(one.damage for one in free.values()) / 3 or 1e-3
    held = replay.priced(steps, slices, share, eps, 1)
    for rows, one in free.items():
        whole = np.mean([slices.whole(step) for step in steps[rows]])
        floors = np.mean([(step > 0).sum() * 2 for step in steps[rows]])
        assert one.tiles <= max(share * whole, floors) + 1e-9
        assert held[rows].damage <= eps
        assert held[rows].tiles >= one.tiles
        assert replay.damages(steps[rows], slices, one.price, rows, 1).mean() == pytest.approx(one.damage)


def test_damage_is_the_sum_over_layers_ranks_and_skipped_tiles():
    """By hand from the depths of every layer and rank."""
    slices, steps = table(), replay.drawn(routing(), 5, 4, 5, seed=0)
    price = 0.2 * UNIT
    by_hand = []
    for step in steps:
        lost = 0.0
        for layer, loads in enumerate(step):
            for part in (slices.table[layer][:, :2], slices.table[layer][:, 2:]):
                lost += waterfill.lost(loads, part, waterfill.cleared(loads, part, price))
        by_hand.append(lost / 4)
    assert replay.damages(steps, slices, price, 4, 1) == pytest.approx(by_hand)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_the_chosen_ladder_is_the_best_of_all(share):
    """Within the bytes no other ladder of the same replayed steps is predicted to lose less; nothing is lost where all may be read."""
    made, rows, tiles = routing(), 4, 3
    steps = (replay.drawn(made, 5, rows, 12, seed=0)[:, 1], replay.ranked(made, 5, rows, 12, seed=0)[:, 1])
    important = table(layers=1, tiles=(tiles,)).table[0]
    known = {}
    for ladder in router_rank.ladders(2, tiles):
        depths = [router_rank.depths(ranks, ladder) for ranks in steps[1]]
        lost = [waterfill.lost(loads, important, deep) for loads, deep in zip(steps[0], depths, strict=True)]
        known[ladder] = (np.mean([deep.sum() for deep in depths]), np.mean(lost) / rows)
    found = ladders.best(steps, important, top_k=2, share=share, rows=rows)
    assert (found.tiles, found.damage) == pytest.approx(known[found.ladder])
    most = share * known[tiles, tiles][0]
    within = [damage for read, damage in known.values() if read <= most + 1e-9]
    if within:
        assert found.tiles <= most + 1e-9
        assert found.damage == pytest.approx(min(within))
    else:
        assert found.ladder == (1, 1)
    assert share < 1 or found.damage == pytest.approx(0)
    eps = found.damage / 2
    held = ladders.best(steps, important, top_k=2, share=share, rows=rows, eps=eps)
    least = min(read for read, damage in known.values() if damage <= eps + 1e-12)
    assert held.damage <= eps + 1e-12
    assert held.tiles >= least - 1e-9
    assert held.tiles == pytest.approx(least) or held.tiles <= most + 1e-9


def test_a_ladder_is_found_where_every_step_picks_every_expert():
    """No expert has the rank of those whom nobody picked, which says nothing of how many a row picks."""
    loads, ranks = np.full((3, 4), 7, dtype=np.int32), np.tile(np.array([0, 1, 1, 0], dtype=np.int32), (3, 1))
    important = np.tile(np.array([4.0, 2.0, 1.0], dtype=np.float32), (4, 1))
    found = ladders.best((loads, ranks), important, top_k=2, share=0.67, rows=2)
    assert sorted(found.ladder) == [1, 3] or found.ladder == (2, 2)
    with pytest.raises(Refusal, match="of other steps"):
        ladders.best((loads, ranks), important, top_k=1, share=0.67, rows=2)


def test_a_size_between_takes_the_deeper_ladder():
    """Rank by rank, so that it is cut no deeper than either neighbour."""
    found = ladders.table({1: (3, 1), 4: (2, 2), 6: (2, 1)}, 6)
    assert found.tolist() == [[0, 0], [3, 1], [3, 2], [3, 2], [2, 2], [2, 2], [2, 1]]
    with pytest.raises(Refusal, match="up to 7 rows"):
        ladders.table({1: (3, 1)}, 7)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.integers(1, 12), st.floats(0, 100, width=32), min_size=1))
def test_a_size_between_is_cut_no_deeper_than_its_neighbours(prices):
    """The table holds what was replayed, and the lower neighbour in between."""
    most = max(prices)
    found = replay.table(prices, 3, most)
    assert found.shape == (3, most + 1)
    for rows in range(1, most + 1):
        around = [
            prices[size]
            for size in (
                max((s for s in prices if s <= rows), default=min(prices)),
                min(s for s in prices if s >= rows),
            )
        ]
        assert found[0, rows] == np.float32(min(around))
    with pytest.raises(Refusal, match="replayed step sizes"):
        replay.table(prices, 3, most + 1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.floats(0, 3e6))
def test_no_token_loses_more_than_the_worst(seed, price):
    """Whatever the step and the price, no row's predicted damage is above d_max."""
    slices, seen = table(seed), routing(seed)
    heaviest = np.sort(seen.weights.astype(np.float64) ** 2, axis=2).max(axis=(0, 1))
    worst = replay.worst_token(slices, list(heaviest), 1)
    step = replay.drawn(seen, 5, 6, 1, seed)[0]
    for token in range(seen.picks.shape[1]):
        lost = 0.0
        for layer, loads in enumerate(step):
            for part in (slices.table[layer][:, :2], slices.table[layer][:, 2:]):
                depths = np.maximum(waterfill.cleared(np.maximum(loads, 1), part, price), 1)
                for expert, weight in zip(seen.picks[layer, token], seen.weights[layer, token], strict=True):
                    lost += float(weight) ** 2 * part[expert, depths[expert] :].sum()
        assert lost <= worst + 1e-9


def test_a_guess_from_weights_needs_no_text(surveyed_mini):
    """Gaussian inputs, the same every time; nothing counted."""
    _, files, *_ = surveyed_mini
    one = moments.guessed(files, 1)
    assert one.count.sum() == 0
    assert (shrunk(one) > 0).all()
    assert (moments.guessed(files, 1).tried_square == one.tried_square).all()
