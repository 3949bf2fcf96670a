"""The practice engine's KV cache beside the predicted one: each counts by itself, from the same recipe."""

import pytest

from launcher.capacity import asked, config, kv
from launcher.capacity.preset import Model
from launcher.overlay import overlay
from launcher.recipe import Argument, EngineFacts, Recipe
from launcher.vllm import program
from rehearsal.engine import flags, memory
from sparkctl import content, edge
from sparkctl.line import Line

V41 = config.attention(edge.read(content.model("deepseek-v41-flash-exl3"), Model).config, "v41")


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({}, 2_561_073),
        ({"args.max-model-len": 1_000_000}, 3_411_140),
        ({"args.max-model-len": 1_000_000, "args.max-num-batched-tokens": 16384}, 2_990_822),
        ({"args.max-model-len": 1_000_000, "args.async-scheduling": False}, 3_668_949),
        ({"args.async-scheduling": True}, 2_561_073),
        ({"args.max-model-len": 4000, "memory.kv_cache_gib": 16}, None),
    ],
    ids=str,
)
def test_the_practice_engine_prints_what_is_predicted(
    settings: dict[str, Argument], tokens: int | None, recipe: Recipe, engine: EngineFacts, line: Line
) -> None:
    """By length, batch, scheduling and pin, to the token; what boots logged (kv_accounting.yml) is met by both."""
    chosen = overlay(recipe, settings, engine)
    size = asked.pinned(chosen)
    assert size is not None
    predicted = kv.pool(size, asked.cache_groups(chosen, V41), asked.demand(chosen, V41))
    argv = flags.read(program(chosen, line, line.head).argv)
    pin = memory.size_bytes(argv.text("kv-cache-memory-bytes"))
    practised = memory.pool(memory.plan(0, 4, 0.78, pin).kv, argv)
    assert (practised.tokens, practised.drawn) == (predicted.tokens, predicted.request_blocks)
    assert tokens in {None, practised.tokens}


def test_the_practice_engine_asks_for_what_one_request_is_predicted_to_need(
    recipe: Recipe, line: Line
) -> None:
    """A pool of exactly one request's bytes will do, and a byte less is refused with the GiB that are needed."""
    least = kv.needed(asked.cache_groups(recipe, V41), asked.demand(recipe, V41))
    argv = flags.read(program(recipe, line, line.head).argv)
    assert memory.pool(least / 1024**3, argv).fault == ""
    assert "(1.41 GiB KV cache is needed" in memory.pool((least - 1) / 1024**3, argv).fault
