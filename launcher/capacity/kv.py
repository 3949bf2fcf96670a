"""KV: a pool of blocks, what one request draws from it group by group, and the tokens that vLLM will print. Pure.

vLLM's figure is the number of full-length requests times their length, not blocks times tokens: it changes with the length.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.capacity.config import Hybrid
from launcher.capacity.groups import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the engine asks of the pool: the longest request, and the tokens that may be in flight at once."""

    length: int
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one full-length request draws for one group: `blocks`, of which `reserved` only for tokens in flight.

    `count` groups of this kind draw the same.
    """

    group: Group
    count: int
    blocks: int
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The pool of one rank: `size` bytes cut into `blocks` of `block_bytes`, the bytes of the widest group."""

    size: int
    block_bytes: int
    blocks: int
    length: int
    shares: tuple[Share, ...]

    @property
    def request_blocks(self) -> int:
        """Blocks that one full-length request draws."""
        return sum(share.count * share.blocks for share in self.shares)

    @property
    def requests(self) -> float:
        """How many full-length requests fit at once."""
        return self.blocks / self.request_blocks

    @property
    def tokens(self) -> int:
        """Tokens, as vLLM prints them: full-length requests times their length."""
        return int(self.requests * self.length)

    @property
    def reserved(self) -> float:
        """Share of a request's bytes that stands by for tokens in flight."""
        return sum(share.count * share.reserved for share in self.shares) / self.request_blocks

    @property
    def narrow(self) -> float:
        """Share of a request's bytes that is lost because every block is as large as the widest group's."""
        lost = (
            share.count * share.blocks * (self.block_bytes - share.group.block_bytes) for share in self.shares
        )
        return sum(lost) / (self.request_blocks * self.block_bytes)

    @property
    def aligned(self) -> float:
        """Share of a request's bytes that is lost to the alignment of pages."""
        lost = (
            share.count * share.blocks * (share.group.block_bytes - share.group.used_bytes)
            for share in self.shares
        )
        return sum(lost) / (self.request_blocks * self.block_bytes)


def pool(size: int, groups: Sequence[Group], demand: Demand) -> Pool:
    """Cut a pool of `size` bytes into blocks."""
    block_bytes = max(group.block_bytes for group in groups)
    return Pool(
        size=size,
        block_bytes=block_bytes,
        blocks=size // block_bytes,
        length=demand.length,
        shares=tuple(_share(group, groups.count(group), demand) for group in dict.fromkeys(groups)),
    )


def longest(size: int, groups: Sequence[Group], demand: Demand) -> int:
    """Return the longest request, up to the demand's, that the pool holds once; 0 where it holds none."""
    low, high = 0, demand.length
    while low < high:
        middle = (low + high + 1) // 2
        tried = pool(size, groups, Demand(length=middle, in_flight=demand.in_flight))
        low, high = (middle, high) if tried.blocks >= tried.request_blocks else (low, middle - 1)
    return low


def needed(groups: Sequence[Group], demand: Demand) -> int:
    """Return the bytes of the smallest pool that holds one full-length request."""
    found = pool(0, groups, demand)
    return found.request_blocks * found.block_bytes


def card_bytes(attention: Hybrid, latent: int = 512, index: int = 128) -> float:
    """Return the bytes a token that the model's card counts: every source's states in FP4 with their scales, no page and no window.

    A latent has a scale byte for 16 elements, an index key for 32. Engines lay out more: see `caches`.
    """
    state = latent / 2 + latent / 16 + index / 2 + index / 32
    return sum(state / ratio for ratio in attention.sources.values())


def _share(group: Group, count: int, demand: Demand) -> Share:
    blocks = _blocks(group, demand)
    settled = _blocks(group, Demand(length=demand.length, in_flight=1))
    return Share(group=group, count=count, blocks=blocks, reserved=blocks - settled)


def _blocks(group: Group, demand: Demand) -> int:
    """Return the blocks of a full-length request: all of it, or its window and what is in flight, which may begin inside a block."""
    size, window = group.cache.block_tokens, group.cache.window
    if window is None:
        return math.ceil(demand.length / size)
    return math.ceil(min(window - 1 + demand.in_flight, demand.length) / size) + 1
