"""Depths in one launch: what the definition in torch says, to the last bit, in Triton's interpreter where no GPU is."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")
pytest.importorskip("triton", reason="no Triton here: run by scripts/check --engine")

from sparkctl_vllm.serving import budget as budget_module
from sparkctl_vllm.serving.roster import Work

from .test_accounts import LAYERS, ROWS, budget, routed

WORK = [Work(request="a", rows=3, decoding=True), Work(request="b", rows=1, decoding=True)]


def both(**changes):
    """The same worker twice: by the definition, and in one launch."""
    pair = budget(**changes), budget(**changes)
    pair[1].fused = budget_module._fused(pair[1])
    for one in pair:
        one.turnover((), {"a": None, "b": None})
    return pair


def layers(pair, seed, rows, padding):
    """Run the layers of a step on both; what they answer and note must be equal."""
    rng = np.random.default_rng(seed)
    for layer in range(LAYERS):
        picks, weights = (torch.from_numpy(one) for one in routed(rng, rows + padding))
        wanted, found = (one.depths(layer, picks, weights) for one in pair)
        assert found.tolist() == wanted.tolist()
    for name in ("cost", "read"):
        wanted, found = (getattr(one.running, name) for one in pair)
        assert torch.equal(found, wanted), name
    return pair[0].running


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_definition(rank, padding, seed):
    """Depths of each rank, cost of each row and tiles by rank, with padding rows that have picks of their own."""
    pair = both(rank=rank, seed=seed)
    for one in pair:
        one.begin(WORK)
    noted = layers(pair, seed, 4, padding)
    assert 0 < int(noted.read[0].sum()) < int(noted.read[1].sum()), "some tiles are cut"
    assert noted.cost[:4].any()


@pytest.mark.parametrize("owed", [(0, 0), (1, 0), (2, 1), (3, 3)])
def test_floors_are_heeded(owed):
    """Rows that owe more than h, and more than 2 h, are read deeper, whoever shares their experts."""
    pair = both(price=1e9)
    for one in pair:
        for name, times in zip("ab", owed, strict=True):
            one.ledger.owed[one.roster.slot(name)] = times * one.ledger.bar + (times > 0)
        one.begin(WORK)
    noted = layers(pair, 5, 4, 2)
    least, whole = (int(one) for one in noted.read.sum(1))
    assert (least == whole) == (owed == (3, 3))


def test_outside_of_a_step_everything_is_read_for_nothing():
    """As in a capture: nobody has announced a step."""
    pair = both(price=1e9)
    noted = layers(pair, 6, ROWS, 0)
    assert torch.equal(noted.read[0], noted.read[1])
    assert not noted.cost.any()


def test_equal_products_round_alike():
    """Router weights whose squares lie half-way between two units: ties go to even in both."""
    pair = both(price=0.0)
    for one in pair:
        one.begin([Work(request="a", rows=4, decoding=True)])
    halves = torch.sqrt((torch.arange(8).reshape(4, 2) + 0.5) / (1 << 20))
    picks = torch.tensor([[0, 1], [2, 3], [4, 5], [0, 5]], dtype=torch.int32)
    wanted, found = (one.depths(0, picks, halves.float()) for one in pair)
    assert found.tolist() == wanted.tolist()
    assert torch.equal(pair[0].running.cost, pair[1].running.cost)
