"""Groups: which layers share a block table, as vLLM's hybrid allocator makes them; every group draws from one pool. Pure.

Rules as read in vllm/v1/core/kv_cache_planning.py of the wheel 0.33.0; tests/engine holds them against that code.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.capacity.caches import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """So many layers of one cache behind one block table."""

    cache: Cache
    layers: int

    @property
    def block_bytes(self) -> int:
        """Bytes that one block of this group takes."""
        return self.layers * sum(self.cache.pages)

    @property
    def used_bytes(self) -> int:
        """Bytes of one block that hold something, its pages' alignment left out."""
        return self.layers * self.cache.used


def groups(caches: Sequence[Cache], repeats: int | None = None) -> tuple[Group, ...]:
    """Return the groups of a model's caches.

    `repeats` is how many layers of a kind a group takes, where the pages of the kinds differ in size; None leaves that to the
    allocator. A single kind is one group, whatever its layers.
    """
    if len(caches) == 1:
        return (Group(cache=caches[0], layers=caches[0].layers),)
    if len({page for cache in caches for page in cache.pages}) == 1:
        return tuple(_split(caches, _equal(caches)))
    return tuple(_split(caches, repeats or _repeats(caches)))


def _split(caches: Sequence[Cache], layers: int) -> Iterator[Group]:
    """Deal each kind's layers out over as few groups as hold at most `layers` of them, as evenly as can be."""
    for cache in caches:
        count = -(-cache.layers // layers)
        whole, rest = divmod(cache.layers, count)
        for at in range(count):
            yield Group(cache=cache, layers=whole + (at < rest))


def _equal(caches: Sequence[Cache]) -> int:
    """Choose where all pages are alike: the fewest layers of a kind, or the most where the kinds hardly differ."""
    counts = [cache.layers for cache in caches]
    return max(counts) if max(counts) < 1.5 * min(counts) else min(counts)


def _repeats(caches: Sequence[Cache]) -> int:
    """Choose where pages differ: from the largest kind with several pages up, what leaves the fewest empty places; ties go up."""
    counts = [cache.layers for cache in caches]
    least = max(cache.layers for cache in caches if len(cache.pages) > 1)
    return min(
        range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size)
    )
