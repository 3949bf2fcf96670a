"""Predicted effects of levers: what is covered, in which range, and what is left unsaid."""

from typing import Any

import pytest

from launcher.capacity import config
from launcher.capacity.preset import Hardware, Model
from launcher.overlay import overlay
from sparkctl import content, edge
from sparkctl.cli.served import read_recipe
from tuner.predicted import KV_TOKENS, Effect, Known, predicted, shown

METRICS = ("c1_per_stream_tok_s", "c6_agg_tok_s", "prefill_47k_tok_s")


def effects(recipe: str = "v41-flash-exl3-tp4", **settings: Any) -> dict[str, Effect]:
    """The effects of some settings on a recipe that ships, by metric."""
    before, engine = read_recipe(recipe)
    after = overlay(before, {key.replace("__", "."): value for key, value in settings.items()}, engine)
    model = edge.read(content.model("deepseek-v41-flash-exl3"), Model)
    known = Known(
        model=model,
        attention=config.attention(model.config, "preset"),
        hardware=edge.read(content.hardware("gb10"), Hardware),
    )
    return {one.metric: one for one in predicted(before, after, known, METRICS)}


@pytest.mark.parametrize(
    ("settings", "before", "after"),
    [
        ({"args__max-model-len": 1000000}, 2561073, 3411140),
        ({"args__async-scheduling": False}, 2561073, None),
        ({"memory__kv_cache_gib": 24}, None, None),
    ],
    ids=["length", "in step", "pin"],
)
def test_levers_of_the_cache_are_exact(
    settings: dict[str, Any], before: int | None, after: int | None
) -> None:
    """Another length gives the ratio of the two logged figures; fewer tokens in flight and a larger pin give more tokens."""
    found = effects(**settings)
    assert found.keys() == {KV_TOKENS}
    effect = found[KV_TOKENS]
    assert effect.low == effect.high > 1
    if before and after:
        assert effect.low == after / before


def test_twice_the_pin_is_twice_the_tokens() -> None:
    """A pool of 24 GiB takes twice what 12 take, but for a block's remainder."""
    assert effects(memory__kv_cache_gib=24)[KV_TOKENS].low == pytest.approx(2, abs=2e-5)


def test_a_larger_batch_costs_tokens_of_the_cache() -> None:
    """Windows stand by for twice as many tokens in flight: 2,990,822 in place of 3,411,140 at 1,000,000 (logged boots)."""
    before = effects(**{"args__max-model-len": 1000000})[KV_TOKENS].low
    both = effects(**{"args__max-model-len": 1000000, "args__max-num-batched-tokens": 16384})[KV_TOKENS].low
    assert both / before == pytest.approx(2990822 / 3411140)


def test_fewer_drafted_tokens_read_fewer_experts() -> None:
    """Three drafted tokens in place of five: a shorter step, and from as many to a third fewer tokens of it."""
    found = effects(speculative__tokens=3)
    single = found["c1_per_stream_tok_s"]
    assert single.low < 1 < single.high
    # Public boots saw -5.2 % (NEST) and, from 3 to 5, +10.9 % (TSW): within the range.
    assert single.miss(0.948) == 0
    assert single.miss(1 / 1.109) == 0
    assert "prefill_47k_tok_s" not in found


def test_whole_experts_spare_the_wide_slices() -> None:
    """Expert parallelism ends the uneven split; one session's few experts lie less evenly than many sessions'."""
    found = effects(**{"args__enable-expert-parallel": True})
    assert found["c6_agg_tok_s"].high > found["c1_per_stream_tok_s"].low
    assert "exchanges not priced" in found["c6_agg_tok_s"].why


@pytest.mark.parametrize(
    "settings",
    [
        {"env__NCCL_MAX_NCHANNELS": "8"},
        {"env__NCCL_NTHREADS": "256"},
        {"args__async-scheduling": True},
        {"memory__kv_cache_gib": None},
    ],
    ids=["channels", "threads", "what is on already", "a cache that vLLM sizes"],
)
def test_of_what_is_not_modelled_nothing_is_said(settings: dict[str, Any]) -> None:
    """Exchanges, and a cache whose size is itself a span, have no effect here: not one of nothing."""
    assert effects(**settings) == {}


def test_a_miss_is_counted_from_the_nearer_end() -> None:
    """Within the range nothing is missed; outside, the share beyond the end."""
    effect = Effect(metric="c1_per_stream_tok_s", low=0.8, high=1.25, why="")
    assert [effect.miss(ratio) for ratio in (0.8, 1.0, 1.25)] == [0, 0, 0]
    assert effect.miss(1.5) == pytest.approx(0.2)
    assert effect.miss(0.4) == pytest.approx(-0.5)
    assert shown(effect) == "c1_per_stream_tok_s -20.0 to +25.0 %"
