"""Run by the engine's own Python: groups and tokens of made-up caches by vLLM's allocator. JSON cases on stdin, JSON answers on stdout."""

import json
import sys
from types import SimpleNamespace

import torch
from vllm.v1.core import kv_cache_utils as allocator
from vllm.v1.kv_cache_interface import MLAAttentionSpec, SlidingWindowMLASpec


def specs(caches: list[dict]) -> dict[str, object]:
    """One spec for each layer and page, in the order of the caches."""
    made = {}
    for at, cache in enumerate(caches):
        for layer in range(cache["layers"]):
            for part, page in enumerate(cache["pages"]):
                common = {
                    "block_size": cache["block_tokens"],
                    "num_kv_heads": 1,
                    "head_size": 1,
                    "dtype": torch.uint8,
                    "page_size_padded": page,
                }
                window = cache["window"]
                made[f"{at}.{layer}.{part}"] = (
                    MLAAttentionSpec(**common)
                    if window is None
                    else SlidingWindowMLASpec(**common, sliding_window=window)
                )
    return made


def answer(case: dict) -> dict[str, object]:
    """What the allocator makes of one case."""
    layout = SimpleNamespace(is_block_outermost=True)
    config = SimpleNamespace(
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        cache_config=SimpleNamespace(get_resolved_kv_cache_layout=lambda: layout),
        attention_config=SimpleNamespace(hisparse_config=None),
        model_config=SimpleNamespace(max_model_len=case["length"]),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1),
        max_in_flight_tokens=case["in_flight"],
        speculative_config=None,
    )
    groups = allocator.get_kv_cache_groups(config, specs(case["caches"]))
    block = allocator._get_kv_cache_bytes_per_block(groups, layout)
    found = SimpleNamespace(num_blocks=case["size"] // block, kv_cache_groups=groups)
    tokens, _ = allocator.get_kv_cache_capacity(config, found)
    layers = [len({name.rpartition(".")[0] for name in group.layer_names}) for group in groups]
    return {"layers": layers, "block_bytes": block, "tokens": tokens}


print(json.dumps([answer(case) for case in json.load(sys.stdin)]))  # noqa: T201
