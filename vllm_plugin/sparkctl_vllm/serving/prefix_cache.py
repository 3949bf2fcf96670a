"""Prefix cache: blocks with tokens of a reply are not kept for other requests, since what was cut from them would be nobody's charge.

A prompt is always read whole, so its blocks are as exact as ever and are shared as ever. What a reply leaves in the cache of keys and
values was computed under cuts that its own account bounds; a later request, the next turn of the same talk among them, computes
those tokens again, whole.
"""

from functools import wraps
from typing import Any

MARK = "_sparkctl_prompts_only"


def prompts_only() -> None:
    """Let vLLM keep whole blocks of prompts only, once a process."""
    from vllm.v1.core.kv_cache_coordinator import KVCacheCoordinator  # noqa: PLC0415 - heavy, and wanted only here

    own = KVCacheCoordinator.cache_blocks
    if getattr(own, MARK, False):
        return

    @wraps(own)
    def cache_blocks(self: Any, request: Any, num_computed_tokens: int) -> None:
        own(self, request, min(num_computed_tokens, request.num_prompt_tokens))

    setattr(cache_blocks, MARK, True)
    KVCacheCoordinator.cache_blocks = cache_blocks
