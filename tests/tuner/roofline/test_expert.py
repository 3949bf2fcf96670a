"""Experts on the roofline beyond the essay: other models, chance against closed form, tensor parallelism, budget reads."""

from dataclasses import replace

import pytest

from launcher.capacity.preset import Experts, Hardware, Model
from sparkctl import content, edge
from tuner.roofline import expert, routing, step
from tuner.roofline.step import Stack

GB200 = edge.read(content.hardware("gb200"), Hardware)


def _experts(name: str) -> Experts:
    return edge.read(content.model(name), Model).experts


V41 = _experts("deepseek-v41-flash-mxfp4")
EXL3 = _experts("deepseek-v41-flash-exl3")


@pytest.mark.parametrize(
    ("experts", "crossing"),
    [
        (V41, 192),
        (_experts("deepseek-v3"), 369),
        (_experts("kimi-k3"), 185),
        (replace(_experts("kimi-k3"), visit_width=7168), 208),
        (_experts("mixtral-8x7b"), 317),
    ],
    ids=["V4.1-Flash", "V3", "K3, latent traffic", "K3, full hidden traffic", "Mixtral, BF16 roof"],
)
def test_crossing_of_other_models(experts: Experts, crossing: int) -> None:
    """Tokens an expert needs to leave the memory roof of a GB200, as computed from each model's public shapes elsewhere."""
    ridge = expert.roof(GB200, experts).ridge
    assert expert.crossing(experts, ridge) == pytest.approx(crossing, abs=0.5)


def test_at_the_crossing_intensity_is_the_ridge() -> None:
    """The two formulas are each other's inverse."""
    assert expert.intensity(V41, expert.crossing(V41, 625)) == pytest.approx(625)


def test_a_ridge_above_the_ceiling_is_never_crossed() -> None:
    """With 4,608 FLOPs a byte at most, a ridge of 5,000 stays out of reach."""
    assert expert.crossing(V41, 5000) == float("inf")


@pytest.mark.parametrize(
    ("requests", "width", "draws", "said"), [(8, 64, 20, 17), (60, 64, 4, 6), (8, 8, 200, 10)]
)
def test_busiest_gpu_by_chance_agrees_with_the_closed_form(
    requests: int, width: int, draws: int, said: int
) -> None:
    """Drawn routing gives the essay's percent within one, and the closed form within one percent of the load."""
    drawn = routing.simulated(V41, requests * 4, width, draws=draws, seed=1)
    assert (drawn - 1) * 100 == pytest.approx(said, abs=1)
    assert drawn == pytest.approx(routing.busiest(V41, requests * 4, width), abs=0.01)


def test_the_same_seed_draws_the_same() -> None:
    """Chance comes in as a seed and nowhere else."""
    first = routing.simulated(V41, 8, 8, draws=3, seed=5)
    assert first == routing.simulated(V41, 8, 8, draws=3, seed=5)
    assert first != routing.simulated(V41, 8, 8, draws=3, seed=6)


@pytest.mark.parametrize(
    ("tokens", "distinct", "gigabytes"),
    [(1, 6.0, 0.113), (6, 34.6, 0.651), (16, 85.5, 1.608), (64, 243.8, 4.584)],
)
def test_distinct_experts_of_a_small_batch(tokens: int, distinct: float, gigabytes: float) -> None:
    """Experts that a decode batch reads in one layer under independent routing, and their MXFP4 bytes."""
    found = routing.touched(V41, tokens)
    assert found == pytest.approx(distinct, abs=0.05)
    assert found * expert.weight_bytes(V41) / 1e9 == pytest.approx(gigabytes, abs=0.0005)


def test_a_quarter_of_every_expert_on_each_rank() -> None:
    """EXL3 at 3.51 bits over four ranks: six tokens read 5.4 GB a rank and step, of which FLOPs are a small part."""
    layer = step.sliced(EXL3, 6, routing.touched(EXL3, 6), 0.25)
    assert layer.weights * 40 / 1e9 == pytest.approx(5.4, abs=0.05)
    gb10 = expert.roof(edge.read(content.hardware("gb10"), Hardware), EXL3, "stream")
    assert step.seconds([Stack(layer=layer, count=40)], gb10) * 1e3 == pytest.approx(24.7, abs=0.3)
    assert layer.flop / gb10.flop_s < 0.1 * layer.moved / gb10.bytes_s


def test_a_budget_read_reads_its_share() -> None:
    """Half the neurons are half the bytes and half the FLOPs; a token's own bytes stay."""
    whole = step.sliced(V41, 16, 85.5, 0.25)
    half = step.sliced(V41, 16, 85.5, 0.25, depth=0.5)
    assert (half.weights * 2, half.flop * 2, half.activations) == pytest.approx(
        (whole.weights, whole.flop, whole.activations)
    )


def test_static_part_is_the_rest_and_never_negative() -> None:
    """A step shorter than its experts' time leaves nothing, not less."""
    stacks = [Stack(layer=step.parallel(V41, 32, 7), count=40)]
    roof = expert.roof(GB200, V41)
    took = step.seconds(stacks, roof)
    assert step.static(took + 0.009, stacks, roof) == pytest.approx(0.009)
    assert step.static(took / 2, stacks, roof) == 0


def test_without_overlap_a_step_takes_longer() -> None:
    """Added traffic and arithmetic exceed the longer of the two."""
    stacks = [Stack(layer=step.parallel(V41, 1024, 7), count=40)]
    roof = expert.roof(GB200, V41)
    assert step.seconds(stacks, roof, overlap=False) > step.seconds(stacks, roof)
