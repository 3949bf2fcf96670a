"""The KV pool: every figure that boots of DeepSeek-V4.1-Flash logged comes out exactly, and other families by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.capacity import config, kv
from launcher.capacity.caches import Storage, caches
from launcher.capacity.groups import Group, groups
from launcher.capacity.kv import Demand, Pool
from launcher.capacity.preset import Model
from sparkctl import content, edge
from sparkctl.errors import Refused

CASES = yaml.safe_load((Path(__file__).parent / "kv_accounting.yml").read_text(encoding="utf-8"))
MODEL = edge.read(content.model("deepseek-v41-flash-exl3"), Model)
V41 = config.attention(MODEL.config, "deepseek-v41-flash-exl3")
PAGES = Storage(block_tokens=128, element_bytes=1)


def of_v41(length: int, in_flight: int, repeats: int | None = None) -> Pool:
    """The pool of the boots' pin."""
    made = groups(caches(V41, 4, PAGES, drafts=True), repeats)
    return kv.pool(CASES["pool_bytes"], made, Demand(length=length, in_flight=in_flight))


@pytest.mark.parametrize("boot", CASES["boots"], ids=lambda boot: f"{boot['max_model_len']}-{boot['T']}")
def test_tokens_are_those_that_the_boots_logged(boot: dict[str, Any]) -> None:
    """Pool, blocks, blocks of a request and the logged `GPU KV cache size` of each boot, exactly."""
    found = of_v41(boot["max_model_len"], boot["T"])
    assert (found.block_bytes, found.blocks) == (CASES["bytes_per_block"], CASES["num_blocks"])
    assert found.tokens == boot["logged_tokens"]
    if "per_request_blocks" in boot:
        assert found.request_blocks == boot["per_request_blocks"]


@pytest.mark.parametrize(
    ("variant", "in_flight", "repeats"),
    tuple(zip(CASES["variants"], (16384, 16384, 8192), (1, 1, None), strict=True)),
    ids=lambda value: value["change"] if isinstance(value, dict) else str(value),
)
def test_tokens_are_those_of_the_simulated_variants(
    variant: dict[str, Any], in_flight: int, repeats: int | None
) -> None:
    """One layer a group, and half as many tokens in flight, exactly."""
    assert of_v41(variant["max_model_len"], in_flight, repeats).tokens == variant["tokens"]


@pytest.mark.parametrize(
    ("gib", "length", "in_flight", "least", "most"),
    [
        (16, 1048576, 8192, 4_905_000, 4_915_000),
        (15.5, 300000, 16384, 3_270_000, 3_310_000),
    ],
    ids=[
        "NestuFNG, release, 16 GiB pinned: 4.91 million",
        "tonyd2wild, EXL3, 15.5 GiB offered: 3.27 to 3.30 million",
    ],
)
def test_boots_of_other_fleets_are_met(
    gib: float, length: int, in_flight: int, least: int, most: int
) -> None:
    """Two more projects print rounded figures; these were not used to find the rules."""
    made = groups(caches(V41, 4, PAGES, drafts=True))
    found = kv.pool(int(gib * 1024**3), made, Demand(length=length, in_flight=in_flight))
    assert least <= found.tokens <= most


def test_groups_are_those_of_the_logged_boots() -> None:
    """The allocator's own choice of layers for a group gives the 17 groups of the report, each with its blocks of tokens and window."""
    found = of_v41(300000, 16384)
    made = [
        (share.count, share.group.layers, share.group.cache.block_tokens, share.group.cache.window)
        for share in found.shares
    ]
    assert made == [(12, 3, 64, 128), (2, 2, 64, 128), (1, 3, 128, None), (1, 1, 64, None), (1, 3, 64, 133)]
    assert sum(share.count for share in found.shares) == sum(group["count"] for group in CASES["groups"])
    assert {page for share in found.shares for page in share.group.cache.pages} == set(
        CASES["page_bytes"].values()
    )


@pytest.mark.parametrize(("window", "blocks"), [(129, 259), (130, 260), (193, 260), (194, 261)])
def test_drafter_window_is_known_within_bounds(window: int, blocks: int) -> None:
    """A drafter's window from 130 to 193 tokens draws the 260 blocks of the report; no other does."""
    drafter = caches(V41, 4, PAGES, drafts=True)[-1]
    group = Group(cache=replace(drafter, window=window), layers=3)
    assert kv.pool(10**9, [group], Demand(length=300000, in_flight=16384)).request_blocks == blocks


def test_waste_adds_up() -> None:
    """What is reserved, what narrow groups lose and what alignment loses are shares of one request's bytes, counted by hand."""
    found = of_v41(300000, 16384)
    # A window alone needs ceil(128 / 64) + 1 = 3 blocks, the drafter's ceil(133 / 64) + 1 = 4.
    assert found.reserved == pytest.approx((14 * 256 + 256) / 10918)
    narrow = 12 * 259 * 25920 + 2 * 259 * 63360 + 4688 * 92160 + 260 * 25920
    assert found.narrow == pytest.approx(narrow / (10918 * 138240))
    aligned = (12 * 259 * 3 + 2 * 259 * 2 + 260 * 3) * 64 + (2344 * 3 + 4688) * (64 + 192)
    assert found.aligned == pytest.approx(aligned / (10918 * 138240))


def test_without_a_drafter_windows_are_dealt_in_fours() -> None:
    """Three and four layers a group leave as few places empty when the drafter's three are gone; the allocator then takes four."""
    made = groups(caches(V41, 4, PAGES, drafts=False))
    assert [group.layers for group in made] == [4] * 10 + [3, 1]
    found = kv.pool(CASES["pool_bytes"], made, Demand(length=300000, in_flight=16384))
    assert (found.block_bytes, found.request_blocks) == (4 * 37440, 10 * 259 + 2344 + 4688)


def test_longest_request_is_the_last_that_fits() -> None:
    """One token more than `longest` needs more blocks than there are; `needed` is exactly enough for the whole."""
    made, demand = groups(caches(V41, 4, PAGES, drafts=True)), Demand(length=1_000_000, in_flight=16384)
    size = 2 * 1024**3
    most = kv.longest(size, made, demand)
    fits = kv.pool(size, made, Demand(length=most, in_flight=16384))
    above = kv.pool(size, made, Demand(length=most + 1, in_flight=16384))
    assert fits.request_blocks <= fits.blocks
    assert above.request_blocks > above.blocks
    enough = kv.needed(made, demand)
    assert kv.longest(enough, made, demand) == 1_000_000
    assert kv.longest(enough - 1, made, demand) < 1_000_000


def _plain(document: dict[str, Any], tensor: int, block: int, element: int) -> tuple[Group, ...]:
    found = config.attention(document, "config.json")
    return groups(caches(found, tensor, Storage(block_tokens=block, element_bytes=element), drafts=False))


LLAMA = {
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "max_position_embeddings": 131072,
}


def test_dense_model_is_one_group() -> None:
    """Llama 3 70B at TP4 in BF16: 2 x 80 layers x 2 heads x 128 x 2 bytes are 81,920 bytes a token, so 10 GiB hold 131,072."""
    made = _plain(LLAMA, 4, 16, 2)
    assert [(group.layers, group.block_bytes) for group in made] == [(80, 81920 * 16)]
    assert kv.pool(10 * 1024**3, made, Demand(length=131072, in_flight=0)).tokens == 131072


def test_few_keys_are_copied_to_many_ranks() -> None:
    """Eight keys and values over sixteen ranks: each holds one whole."""
    assert _plain(LLAMA, 16, 16, 2)[0].block_bytes == 2 * 80 * 128 * 2 * 16


def test_a_width_that_tears_heads_is_refused_with_those_that_fit() -> None:
    """Three ranks cannot share 64 heads; the hint names the widths that can."""
    with pytest.raises(Refused) as refused:
        _plain(LLAMA, 3, 16, 2)
    assert refused.value.hint == "--set parallel.tensor to one of 1, 2, 4, 8, 16"


def test_windows_of_a_dense_model_share_pages_with_the_rest() -> None:
    """gpt-oss-20b: twelve full and twelve windowed layers are two groups; a window of 128 holds few blocks however long the request."""
    kinds = ["sliding_attention", "full_attention"] * 12
    document = {
        **LLAMA,
        "num_hidden_layers": 24,
        "head_dim": 64,
        "layer_types": kinds,
        "sliding_window": 128,
    }
    made = _plain(document, 1, 16, 2)
    assert [(group.layers, group.cache.window) for group in made] == [(12, None), (12, 128)]
    found = kv.pool(10**9, made, Demand(length=131072, in_flight=8192))
    assert [share.blocks for share in found.shares] == [8192, 521]


def test_five_windows_to_one_make_groups_of_the_fewer() -> None:
    """Gemma 3 27B's 52 windowed and 10 full layers are dealt over groups of at most ten: one full, six windowed."""
    kinds = ["sliding_attention"] * 52 + ["full_attention"] * 10
    document = {
        **LLAMA,
        "num_hidden_layers": 62,
        "head_dim": 128,
        "layer_types": kinds,
        "sliding_window": 1024,
    }
    made = _plain(document, 1, 16, 2)
    assert [group.layers for group in made] == [10, 9, 9, 9, 9, 8, 8]


def test_latent_attention_keeps_one_latent_on_every_rank() -> None:
    """DeepSeek-V3: 61 layers x 576 elements x 2 bytes are 70,272 bytes a token, whatever the width."""
    document = {
        "num_hidden_layers": 61,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "num_attention_heads": 128,
        "max_position_embeddings": 163840,
    }
    for tensor in (1, 8):
        assert _plain(document, tensor, 64, 2)[0].block_bytes == 70272 * 64
