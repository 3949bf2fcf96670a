"""Policies of depth: both against their plain definitions over any routing, the same however the rows lie, and readable by every kernel."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm import policy, reference, router_rank
from sparkctl_vllm.refusal import Refusal
from sparkctl_vllm.serving import policy as serving
from sparkctl_vllm.step import Reading, Step

EXPERTS, TILES = 7, 4


@st.composite
def routing(draw):
    """Picks int32 and weights float32 [rows, top-k], weights with ties, some picks another GPU's, and how many rows are valid."""
    rows, top_k = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    chance = np.random.default_rng(seed)
    picks = np.stack([chance.permutation(EXPERTS)[:top_k] for _ in range(rows)]).astype(np.int32)
    picks[chance.random(picks.shape) < 0.2] = -1
    weights = (chance.integers(0, 6, picks.shape) / 4).astype(np.float32)
    return picks, weights, draw(st.integers(0, rows))


def ladder_of(top_k, seed):
    """One of the ladders that there are."""
    known = router_rank.ladders(top_k, TILES)
    return known[seed % len(known)]


@settings(max_examples=300, deadline=None)
@given(routing(), st.integers(0, 10**6))
def test_router_rank_equals_its_definition(routed, seed):
    """On tensors, with `valid` as a number and as a tensor, bit for bit."""
    picks, weights, valid = routed
    ladder = ladder_of(picks.shape[1], seed)
    wanted = router_rank.depths(router_rank.ranks(picks, weights, EXPERTS, valid), ladder)
    how = policy.router_rank(ladder, EXPERTS, TILES, torch.device("cpu"))
    for rows in (valid, torch.tensor(valid)):
        found = how.depths(torch.from_numpy(picks), torch.from_numpy(weights), rows)
        assert (found.dtype, found.tolist()) == (torch.int32, wanted.tolist())


@settings(max_examples=300, deadline=None)
@given(routing(), st.floats(0, 4), st.integers(1, TILES))
def test_water_filled_equals_the_reference(routed, price, floor):
    """The depths of `reference.planned`, which every kernel is held against."""
    picks, weights, valid = (torch.from_numpy(routed[0]), torch.from_numpy(routed[1]), routed[2])
    table = torch.rand(EXPERTS, TILES, generator=torch.Generator().manual_seed(1)).sort(1, descending=True)[0]
    price *= 2**20
    x = torch.zeros(len(picks), 1).bfloat16()
    step = Step(x=x, picks=picks, weights=weights, valid=valid)
    wanted = reference.planned(step, Reading(importance=table, price=price, floor=floor), EXPERTS)
    for rows, cost in ((valid, price), (torch.tensor(valid), torch.tensor(price, dtype=torch.float32))):
        how = policy.WaterFilled(importance=table, price=cost, floor=floor)
        assert torch.equal(how.depths(picks, weights, rows), wanted.depths)


@settings(max_examples=200, deadline=None)
@given(routing(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_order_of_rows_and_picks_makes_no_difference(routed, seed, shuffle):
    """Rows in any order give the same depths; so do the picks of rows whose weights all differ."""
    picks, weights, _ = routed
    chance = np.random.default_rng(shuffle)
    weights = (weights + chance.permutation(weights.size).reshape(weights.shape) / 1000).astype(np.float32)
    how = policy.router_rank(ladder_of(picks.shape[1], seed), EXPERTS, TILES, torch.device("cpu"))
    rows, slots = chance.permutation(len(picks)), chance.permutation(picks.shape[1])
    before = how.depths(torch.from_numpy(picks), torch.from_numpy(weights), len(picks))
    moved = [torch.from_numpy(one[rows][:, slots].copy()) for one in (picks, weights)]
    assert torch.equal(before, how.depths(moved[0], moved[1], len(picks)))


@settings(max_examples=200, deadline=None)
@given(routing(), st.integers(0, 10**6))
def test_more_rows_never_read_less(routed, seed):
    """A row more raises depths or leaves them; what a row ranks first is read as deep as the ladder begins; nobody's expert not at all."""
    picks, weights, valid = routed
    ladder = ladder_of(picks.shape[1], seed)
    before, after = (
        router_rank.depths(router_rank.ranks(picks, weights, EXPERTS, rows), ladder)
        for rows in (max(valid - 1, 0), valid)
    )
    assert (after >= before).all()
    picked = set(picks[:valid].flatten().tolist()) - {-1}
    assert {int(one) for one in after.nonzero()[0]} == picked
    firsts = [picks[row, weights[row].argmax()] for row in range(valid)]
    assert all(after[one] == ladder[0] for one in firsts if one >= 0)


@settings(max_examples=200, deadline=None)
@given(routing(), st.integers(0, 10**6))
def test_every_kernel_reads_a_policy_at_price_zero(routed, seed):
    """A table of ones and zeros at price 0 makes a reader by price read exactly the depths of a policy."""
    picks, weights, valid = (torch.from_numpy(routed[0]), torch.from_numpy(routed[1]), routed[2])
    how = policy.router_rank(ladder_of(picks.shape[1], seed), EXPERTS, TILES, torch.device("cpu"))
    depths = how.depths(picks, weights, valid)
    table = policy.read_table(depths, how.tiles)
    step = Step(x=torch.zeros(len(picks), 1).bfloat16(), picks=picks, weights=weights, valid=valid)
    assert torch.equal(reference.planned(step, Reading(importance=table, price=0.0), EXPERTS).depths, depths)


def test_what_serves_is_the_definition():
    """VLLM's step by the name router-rank: the plan's ladder of the layer and step size, on every slice; a plan without ladders is refused."""
    ladder = np.zeros((2, 4, 2), dtype=np.uint8)
    ladder[:, 1:] = (4, 2)
    ladder[1, 3] = (3, 1)
    meaning = SimpleNamespace(widths=(256, 256), tile=64)
    how = serving.RouterRank(SimpleNamespace(meaning=meaning, tables={"ladder": ladder}), torch.device("cpu"))
    picks, weights = (
        np.array([[0, 1], [1, 2], [3, 4], [5, 6]]),
        np.array([[1, 2], [1, 2], [2, 1], [9, 9]], dtype=np.float32),
    )
    routed = serving.Routed(
        layer=1, picks=torch.from_numpy(picks), weights=torch.from_numpy(weights), rows=torch.tensor(3),
        loads=torch.zeros(EXPERTS, dtype=torch.int32),
    )  # fmt: skip
    wanted = router_rank.depths(router_rank.ranks(picks, weights, EXPERTS, 3), (3, 1))
    assert how.depths(routed).tolist() == [wanted.tolist()] * 2
    with pytest.raises(Refusal, match="a plan without ladders"):
        serving.RouterRank(SimpleNamespace(meaning=meaning, tables={}), torch.device("cpu"))


def test_all_ladders_are_there():
    """As many as there are non-increasing rows, each once, each taken at the door; 6 ranks of 6 tiles give 462."""
    known = router_rank.ladders(6, 6)
    assert len(known) == len(set(known)) == 462
    assert all(router_rank.checked(one, 6, 6) == one for one in known)
    assert len(router_rank.ladders(6, 9)) == 3003


@pytest.mark.parametrize(
    ("ladder", "said"),
    [((2, 3), "non-increasing"), ((4, 0), "drop an expert"), ((5, 1), "1 to 4"), ((3,), "one depth a rank")],
)
def test_a_ladder_that_cannot_be_is_refused(ladder, said):
    """It rises, drops an expert, is deeper than an expert, or has another length."""
    with pytest.raises(Refusal, match=said):
        router_rank.checked(ladder, 2, TILES)
