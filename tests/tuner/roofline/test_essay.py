"""Every figure of the essay that follows from its text, named by its sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.capacity import config
from launcher.capacity.config import Hybrid
from launcher.capacity.kv import card_bytes
from launcher.capacity.preset import Hardware, Model
from sparkctl import content, edge
from tuner.roofline import expert, routing, step
from tuner.roofline.step import Stack

CASES = yaml.safe_load((Path(__file__).parent / "essay.yml").read_text(encoding="utf-8"))


def _model(name: str) -> Model:
    return edge.read(content.model(name), Model)


V41 = _model("deepseek-v41-flash-mxfp4")
E = V41.experts
assert V41.drafter
D = V41.drafter
GB200 = expert.roof(edge.read(content.hardware("gb200"), Hardware), E)
B200 = expert.roof(edge.read(content.hardware("b200"), Hardware), E)
DRAFTED = 4  # tokens that a request contributes to a step: one real and three to be verified
PREFILL_SLOTS = 392  # "at EP2 each GPU holds 196 expert slots"; no rule for it stands in the text


def _held(experts: Any, width: int) -> int:
    return routing.slots(experts, width) // width


def _step(requests: int, width: int) -> tuple[Stack, ...]:
    tokens = requests * DRAFTED
    return tuple(
        Stack(layer=step.parallel(one, tokens, _held(one, width)), count=one.layers) for one in (E, D)
    )


def _tokens(requests: float, width: int) -> float:
    return routing.tokens_per_expert(E, requests * DRAFTED, width, routing.slots(E, width))


def _crossing(model: Model) -> float:
    gpu = edge.read(content.hardware("gb200"), Hardware)
    return expert.crossing(model.experts, expert.roof(gpu, model.experts).ridge)


def _gap_bytes() -> float:
    return step.weights(_step(8, 8)) - step.weights(_step(8, 64))


def _card() -> float:
    attention = config.attention(V41.config, "preset")
    assert isinstance(attention, Hybrid)
    return card_bytes(attention)


def _busiest(requests: int, width: int) -> float:
    return (routing.busiest(E, requests * DRAFTED, width) - 1) * 100


T_STAR = expert.crossing(E, GB200.ridge)
MAIN_256 = step.parallel(E, 256 * DRAFTED, _held(E, 8))

FIGURES: dict[str, Callable[[], float]] = {
    "parameters_m": lambda: expert.parameters(E) / 1e6,
    "mflop": lambda: expert.flop(E) / 1e6,
    "expert_mb": lambda: expert.weight_bytes(E) / 1e6,
    "ridge_gb200": lambda: GB200.ridge,
    "naive_at_1": lambda: expert.intensity(E, 1, activations=False),
    "below_ridge": lambda: GB200.ridge / expert.intensity(E, 1, activations=False),
    "sparsity": lambda: E.routed / E.top_k,
    "touched_by_1": lambda: routing.touched(E, 1),
    "layer_mb_of_1": lambda: routing.touched(E, 1) * expert.weight_bytes(E) / 1e6,
    "layer_gb": lambda: E.routed * expert.weight_bytes(E) / 1e9,
    "touched_by_256": lambda: routing.touched(E, 256),
    "tokens_of_256": lambda: routing.tokens_per_expert(E, 256),
    "token_mb_of_256": lambda: routing.touched(E, 256) * expert.weight_bytes(E) / 256 / 1e6,
    "naive_crossing": lambda: expert.crossing(E, GB200.ridge, activations=False),
    "crossing": lambda: T_STAR,
    "tokens_at_crossing": lambda: T_STAR * E.routed / E.top_k,
    "routed_gb": lambda: E.layers * E.routed * expert.weight_bytes(E) / 1e9,
    "slots_ep8": lambda: routing.slots(E, 8),
    "slots_ep64": lambda: routing.slots(E, 64),
    "held_ep8": lambda: _held(E, 8),
    "held_ep64": lambda: _held(E, 64),
    "step_gb_ep8": lambda: step.weights(_step(64, 8)[:1]) / 1e9,
    "step_ms_ep8": lambda: step.weights(_step(64, 8)[:1]) / GB200.bytes_s * 1e3,
    "step_gb_ep64": lambda: step.weights(_step(64, 64)[:1]) / 1e9,
    "step_ms_ep64": lambda: step.weights(_step(64, 64)[:1]) / GB200.bytes_s * 1e3,
    "visit_bytes": lambda: expert.visit_bytes(E),
    "ceiling": lambda: expert.ceiling(E),
    "tokens_at_256_ep64": lambda: _tokens(256, 64),
    "naive_at_878": lambda: expert.intensity(E, _tokens(256, 64), activations=False),
    "intensity_at_878": lambda: expert.intensity(E, _tokens(256, 64)),
    "requests_ep64": lambda: T_STAR / _tokens(1, 64),
    "tokens_production": lambda: routing.tokens_per_expert(E, 60 * 4.6, 64, routing.slots(E, 64)),
    "requests_ep8": lambda: T_STAR / _tokens(1, 8),
    "intensity_at_64_ep64": lambda: expert.intensity(E, _tokens(64, 64)),
    "measured_ms": lambda: (1 + 3 * 0.75) / 325.3 * 1e3,
    "drafter_held_ep8": lambda: _held(D, 8),
    "drafter_held_ep64": lambda: _held(D, 64),
    "gap_gb": lambda: _gap_bytes() / 1e9,
    "gap_ms": lambda: (step.seconds(_step(8, 8), GB200) - step.seconds(_step(8, 64), GB200)) * 1e3,
    "gap_tb_s": lambda: _gap_bytes() / 3.64e-3 / 1e12,
    "tflop_of_256": lambda: E.layers * MAIN_256.flop / 1e12,
    "flop_ms_of_256": lambda: E.layers * MAIN_256.flop / GB200.flop_s * 1e3,
    "traffic_over_flop_ms": lambda: (
        E.layers * (MAIN_256.moved / GB200.bytes_s - MAIN_256.flop / GB200.flop_s) * 1e3
    ),
    "experts_ms_ep64": lambda: step.seconds(_step(8, 64), GB200) * 1e3,
    "static_ms": lambda: step.static(3.25 / 325.3, _step(8, 64), GB200) * 1e3,
    "cache_bytes": _card,
    "cache_gb": lambda: _card() * 256 * 131072 / 1e9,
    "prefill_tokens": lambda: routing.tokens_per_expert(E, 16384, 2, PREFILL_SLOTS),
    "crossing_b200": lambda: expert.crossing(E, B200.ridge),
    "prefill_tokens_cap": lambda: routing.tokens_per_expert(E, 32768, 2, PREFILL_SLOTS),
    "prefill_gb": lambda: PREFILL_SLOTS / 2 * E.layers * expert.weight_bytes(E) / 1e9,
    "busiest_8_ep64": lambda: _busiest(8, 64),
    "busiest_60_ep64": lambda: _busiest(60, 64),
    "busiest_256_ep64": lambda: _busiest(256, 64),
    "busiest_8_ep8": lambda: _busiest(8, 8),
    "sparsity_kimi": lambda: (kimi := _model("kimi-k3").experts).routed / kimi.top_k,
    "v3_over_v41": lambda: _crossing(_model("deepseek-v3")) / T_STAR,
    "sparsity_mixtral": lambda: (mixtral := _model("mixtral-8x7b").experts).routed / mixtral.top_k,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['figure']}: {case['says']}")
def test_a_figure_of_the_essay_follows_from_its_text(case: dict[str, Any]) -> None:
    """Within half of the last digit that the sentence gives."""
    assert FIGURES[case["figure"]]() == pytest.approx(case["wanted"], abs=case["within"], rel=0)


def test_every_figure_has_its_sentence() -> None:
    """Nothing is computed here that no sentence states, and no sentence goes without its figure."""
    assert {case["figure"] for case in CASES} == FIGURES.keys()
