"""Caches: the pages that one block of each kind of layer takes on one rank. From a model's attention; pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from launcher.capacity.config import Attention, Dense, Hybrid, Latent
from sparkctl.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What `layers` like layers keep: for every `block_tokens` tokens one page of each size in `pages`, in bytes, and of it `used`.

    A layer with a `window` keeps no more than that many tokens, and what is in flight.
    """

    name: str
    layers: int
    pages: tuple[int, ...]
    used: int
    block_tokens: int
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How an engine lays the hybrid's states into pages: `states` a page, bytes of a latent and of an index entry, page alignment.

    The figures are those of vLLM 0.28.1rc1 with the SM12x page patch, under which three logged boots and three simulated variants
    come out exactly (bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark, recipe/ops/KV_ACCOUNTING_REPORT.md). A latent of 512 is 448
    bytes of FP8, 64 BF16 rotary values and 8 bytes of scales; an index entry 128 bytes of FP8 and a scale.
    """

    states: int = 64
    latent_bytes: int = 584
    index_bytes: int = 132
    alignment: int = 576


SM12X = Layout()


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How a recipe stores what dense and latent attention keep: tokens a block, bytes an element."""

    block_tokens: int
    element_bytes: int


def caches(
    attention: Attention, tensor: int, storage: Storage, *, drafts: bool, layout: Layout = SM12X
) -> tuple[Cache, ...]:
    """Return the caches of one rank at a tensor parallel width; `drafts` tells whether the drafter runs.

    Raises:
        Refused: the heads cannot be divided over this width.

    """
    match attention:
        case Hybrid():
            return tuple(_hybrid(attention, layout, drafts=drafts))
        case Latent():
            _demand_heads(attention.heads, attention.heads, tensor)
            size = storage.block_tokens * attention.width * storage.element_bytes
            return (_plain("latent", attention.layers, size, storage),)
        case Dense():
            _demand_heads(attention.heads, attention.kv_heads, tensor)
            return tuple(_dense(attention, tensor, storage))


def _hybrid(attention: Hybrid, layout: Layout, *, drafts: bool) -> Iterator[Cache]:
    def window(name: str, layers: int, tokens: int) -> Cache:
        latent = layout.states * layout.latent_bytes
        return Cache(
            name=name,
            layers=layers,
            pages=(_aligned(latent, layout.alignment),),
            used=latent,
            block_tokens=layout.states,
            window=tokens,
        )

    yield window("window", attention.layers, attention.window)
    # Two kinds of page at once: a source of compressed states holds the keys of its index beside them.
    parts = (layout.states * layout.latent_bytes, layout.states * layout.index_bytes)
    by_ratio = sorted(attention.sources.values(), reverse=True)
    for ratio, found in groupby(by_ratio):
        yield Cache(
            name=f"compressed {ratio}:1",
            layers=len(list(found)),
            pages=tuple(_aligned(part, layout.alignment) for part in parts),
            used=sum(parts),
            block_tokens=layout.states * ratio,
        )
    if drafts and attention.draft_layers:
        # How much further than the window a drafter sees is inferred: from 130 to 193 tokens in all, the logged figures are the same.
        yield window("drafter's window", attention.draft_layers, attention.window + attention.draft_tokens)


def _dense(attention: Dense, tensor: int, storage: Storage) -> Iterator[Cache]:
    heads = max(1, attention.kv_heads // tensor)
    size = 2 * storage.block_tokens * heads * attention.head_width * storage.element_bytes
    if full := attention.layers - attention.windowed:
        yield _plain("full", full, size, storage)
    if attention.windowed:
        yield _plain("window", attention.windowed, size, storage, attention.window)


def _plain(name: str, layers: int, size: int, storage: Storage, window: int | None = None) -> Cache:
    return Cache(
        name=name,
        layers=layers,
        pages=(size,),
        used=size,
        block_tokens=storage.block_tokens,
        window=window,
    )


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _demand_heads(heads: int, kv_heads: int, tensor: int) -> None:
    """Refuse a width over which vLLM cannot divide the heads, nor copy the few keys and values that there are."""

    def fits(width: int) -> bool:
        return heads % width == 0 and (kv_heads % width == 0 or width % kv_heads == 0)

    if not fits(tensor):
        widths = ", ".join(str(width) for width in range(1, min(heads, 16) + 1) if fits(width))
        raise Refused(
            f"parallel.tensor is {tensor}, over which {heads} heads with {kv_heads} keys and values cannot be divided",
            hint=f"--set parallel.tensor to one of {widths}",
        )
