"""The mini model and its cuts: rounding, the checkpoint, and a cut forward against the definition of a budget read."""

import json

import pytest

torch = pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import mini_moe
import mini_moe_cuts
import mini_moe_replies
import mini_moe_text
from sparkctl_vllm import mxfp4, reference
from sparkctl_vllm.experts import quantised
from sparkctl_vllm.step import Reading, Step

from . import mini

NUMBERS = st.floats(-8, 8, width=32, allow_subnormal=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS, min_size=64, max_size=64))
def test_rounding_while_learning_is_mxfp4(numbers):
    """The fast rounding gives the numbers that the checkpoint will hold."""
    given_ = torch.tensor(numbers, dtype=torch.float32).view(1, 64)
    given_ = torch.where(given_.abs() < 1e-20, 0.0, given_)
    assert torch.equal(mini_moe.rounded(given_), mxfp4.dequantised(*mxfp4.quantised(given_)))


def test_a_checkpoint_comes_back(tmp_path):
    """Experts in MXFP4 exactly, the rest as bf16; logits differ by no more than that."""
    model = mini.model()
    mini_moe.saved(model, tmp_path, {"corpus": "none"})
    again = mini_moe.loaded(tmp_path)
    for one, other in zip(model.layers, again.layers, strict=True):
        assert all(
            torch.equal(getattr(one.experts, part), getattr(other.experts, part))
            for part in ("w1", "w2", "w3")
        )
        assert torch.equal(one.bias, other.bias)
    before, after = model(mini.talks()).detach(), again(mini.talks()).detach()
    assert float((before - after).norm() / before.norm()) < 0.02
    assert json.loads((tmp_path / "config.json").read_text())["swiglu_limit"] == 10


def test_decoding_over_a_cache_is_the_whole_forward():
    """Prefill and token by token predict what one forward over the conversation predicts."""
    model, talks = mini.model(), mini.talks(rows=3)
    whole = model(talks)
    cache = model.cache(3, talks.shape[1])
    parts = [model(talks[:, :5], cache)]
    parts += [model(talks[:, place : place + 1], cache, place) for place in range(5, talks.shape[1])]
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_a_cut_layer_is_the_definition_of_a_budget_read(rows):
    """One decode step through `Experts.forward` under a price equals reference.read on the same weights, and reads as many tiles."""
    experts = mini.model().layers[1].experts
    chance = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 32, generator=chance).bfloat16()
    picks = torch.rand(rows, 6, generator=chance).argsort(1)[:, :2].contiguous()
    weights = torch.rand(rows, 2, generator=chance)
    table = torch.rand(6, 3, generator=chance).sort(1, descending=True).values
    price = 0.3 * 2**20
    held = quantised(experts.w1.data, experts.w3.data, experts.w2.data, 10.0)
    step = Step(x=x, picks=picks.int(), weights=weights, valid=rows)
    wanted = reference.read(step, Reading(importance=table, price=price), held)
    company = mini_moe_cuts.Company(step=torch.zeros(rows, dtype=torch.int64), steps=1, rows=rows)
    reading = mini_moe_cuts.Reading(
        company=company,
        experts=6,
        tiles=3,
        depth=mini_moe_cuts.Priced(importance=table[None].expand(2, -1, -1), prices=(price, price)),
        predicting=(table[None].expand(2, -1, -1),),
    )
    experts.cut = reading
    found = experts(x.float(), picks, weights)
    assert torch.allclose(found.double(), wanted, atol=1e-4)
    plan = reference.planned(step, Reading(importance=table, price=price), 6)
    assert reading.read == plan.tiles < reading.whole
    lost = sum(
        float(weights[row, slot] ** 2 * table[picks[row, slot], plan.depths[picks[row, slot]] :].sum())
        for row in range(rows)
        for slot in range(2)
    )
    assert float(reading.damage[0].sum()) == pytest.approx(lost, rel=1e-5)


def test_every_reply_token_belongs_to_one_step_of_its_size():
    """Prompts belong to none; a step holds one token of each conversation in it."""
    found = mini_moe_cuts.company(12, 4, 0, torch.device("cpu"))
    step = found.step.view(12, -1)
    assert (step[:, : mini_moe_replies.PROMPT] == -1).all()
    replies = step[:, mini_moe_replies.PROMPT :]
    assert torch.bincount(replies.flatten(), minlength=found.steps).tolist() == [4] * found.steps
    assert all(len(row.unique()) == mini_moe_replies.REPLY for row in replies)


def test_fewer_experts_keeps_the_heaviest_and_their_sum():
    """With one pick kept of two, the heavier carries the weight of both; the other reads nothing."""
    company = mini_moe_cuts.Company(step=torch.tensor([0, -1]), steps=1, rows=1)
    reading = mini_moe_cuts.Reading(
        company=company, experts=6, tiles=3, depth=mini_moe_cuts.Uniform(tiles=3), picks=1
    )
    kept, weights = reading(0, torch.tensor([[2, 4], [0, 1]]), torch.tensor([[0.5, 1.0], [0.7, 0.8]]))
    assert kept.tolist() == [[0, 192], [192, 192]]
    assert torch.allclose(weights, torch.tensor([[0.0, 1.5], [0.7, 0.8]]))
    assert (reading.read, reading.whole) == (3, 6)


def test_text_is_cleaned_shuffled_and_held_out(tmp_path):
    """Markup goes, doubles go, non-text goes; tokens come back from the file."""
    pytest.importorskip("tokenizers")
    (tmp_path / "a").mkdir()
    for place in range(120):
        (tmp_path / "a" / f"{place}.html").write_text(
            f"<p>Page {place}: " + f"word{place} and more. " * 40 + "</p>"
        )
    (tmp_path / "a" / "double.txt").write_text(("Page 0: " + "word0 and more. " * 40).strip())
    (tmp_path / "a" / "binary.txt").write_bytes(b"\0" * 1000)
    found = mini_moe_text.gathered([tmp_path / "a"], 10**6)
    assert len(found) == 120
    assert not any(b"<" in one for one in found)
    assert found == mini_moe_text.gathered([tmp_path / "a"], 10**6)
    corpus, tokens, words = mini_moe_text.tokenised(found, 300)
    assert corpus.documents == 120
    assert (tokens == 0).sum() == 120
    assert (tokens[-corpus.held_out :] == 0).sum() == 3
    assert tokens.dtype == np.uint16
    said = "".join(words[token] for token in tokens)
    assert all(text.decode() in said for text in found)
