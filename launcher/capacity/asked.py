"""Asked: what a recipe asks of a rank's memory: its longest request, the tokens in flight, how the cache is stored. Pure."""

import math

from launcher.capacity.caches import Storage, caches
from launcher.capacity.config import Attention, Dense, Hybrid, Latent
from launcher.capacity.groups import Group, groups
from launcher.capacity.kv import Demand
from launcher.capacity.memory import Setup
from launcher.recipe import Recipe
from sparkctl.errors import Refused, Unclear, UsageFault
from sparkctl.units import GIB

_ELEMENT_BYTES = {"auto": 2, "bfloat16": 2, "float16": 2}
"""Bytes of an element by `kv-cache-dtype`; whatever begins with fp8 takes one. `auto` is the model's own, 16 bits here."""

_SMALL_BUFFER = 1024**2


def demand(recipe: Recipe, attention: Attention) -> Demand:
    """Return the longest request and the tokens in flight: a batch, and a second one where scheduling runs ahead.

    Raises:
        Refused: the request is longer than the model's positions.
        UsageFault: the recipe leaves open what the pool depends on.
        Unclear: the layout is one that is not modelled.

    """
    if recipe.parallel.pipeline > 1:
        raise Unclear(
            f"{recipe.name}: parallel.pipeline is {recipe.parallel.pipeline}, and layers cut over stages are not modelled",
            hint="--set parallel.pipeline=1 predicts a rank that holds all layers",
        )
    length = _whole(recipe, "max-model-len") or attention.longest
    if length > attention.longest:
        raise Refused(
            f"args.max-model-len is {length:,}; the model has positions for {attention.longest:,}",
            hint=f"--set args.max-model-len={attention.longest} or less",
        )
    batched = _whole(recipe, "max-num-batched-tokens")
    if batched is None and _has_windows(attention):
        raise UsageFault(
            f"{recipe.name} sets no args.max-num-batched-tokens, and a window's blocks depend on it",
            hint="--set args.max-num-batched-tokens=8192, or what you serve with",
        )
    return Demand(length=length, in_flight=(batched or 0) * (1 if _in_step(recipe) else 2))


def cache_groups(recipe: Recipe, attention: Attention, repeats: int | None = None) -> tuple[Group, ...]:
    """Return the groups of a rank's cache; `repeats` overrides how many layers of a kind one takes."""
    found = caches(
        attention, recipe.parallel.tensor, _storage(recipe, attention), drafts=recipe.speculative is not None
    )
    return groups(found, repeats)


def pinned(recipe: Recipe) -> int | None:
    """Return the bytes of cache that the recipe pins every rank to; None where vLLM sizes it."""
    gib = recipe.memory.kv_cache_gib
    return None if gib is None else math.floor(gib * GIB)


def setup(recipe: Recipe, attention: Attention, guard_gib: float) -> Setup:
    """Return what a recipe sets of memory."""
    asked = demand(recipe, attention)
    hybrid = isinstance(attention, Hybrid)
    environment = recipe.environment
    on_disk = recipe.engram.rows or environment.get("DSV41_ENGRAM_DISK") == "1"
    buffer = environment.get("NCCL_BUFFSIZE", "")
    return Setup(
        utilisation=recipe.memory.utilisation,
        cache_gib=recipe.memory.kv_cache_gib,
        length=asked.length,
        batched=_whole(recipe, "max-num-batched-tokens") or 0,
        engram="none" if not hybrid else "disk" if on_disk else "resident",
        small_buffers=buffer.isdecimal() and int(buffer) <= _SMALL_BUFFER,
        indexed=hybrid,
        guard_gib=guard_gib,
        resident_rows=recipe.engram.resident,
        resident_kind=recipe.engram.format,
    )


def _storage(recipe: Recipe, attention: Attention) -> Storage:
    dtype = recipe.args.get("kv-cache-dtype", "auto")
    size = 1 if str(dtype).startswith("fp8") else _ELEMENT_BYTES.get(str(dtype))
    if size is None:
        raise UsageFault(
            f"args.kv-cache-dtype is {dtype}, whose pages are not modelled",
            hint=f"wanted fp8 or one of {', '.join(_ELEMENT_BYTES)}",
        )
    # vLLM's own block is 16 tokens; its latent attention kernels want 64.
    usual = 64 if isinstance(attention, Latent) else 16
    return Storage(block_tokens=_whole(recipe, "block-size") or usual, element_bytes=size)


def _has_windows(attention: Attention) -> bool:
    return isinstance(attention, Hybrid) or (isinstance(attention, Dense) and attention.windowed > 0)


def _in_step(recipe: Recipe) -> bool:
    """Whether scheduling waits for the step before; vLLM runs ahead by itself unless it is told not to."""
    return recipe.flags.get("async-scheduling") is False


def _whole(recipe: Recipe, flag: str) -> int | None:
    value = recipe.args.get(flag)
    if value is None:
        return None
    if type(value) is int and value > 0:
        return value
    raise UsageFault(
        f"args.{flag} is {value!r}, which cannot be counted with",
        hint=f"--set args.{flag} to a whole number above 0",
    )
