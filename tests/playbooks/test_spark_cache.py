"""playbooks/library/spark_cache.py: the page cache is dropped where it matters, and the answer is honest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import spark_cache

if TYPE_CHECKING:
    from conftest import Node

GIB = 1024**3


@pytest.mark.usefixtures("node")
def test_a_full_cache_is_dropped_and_a_small_one_left() -> None:
    """The first call frees what the node's memory gained, the second changes nothing."""
    first = spark_cache.settle(GIB, 5, check_mode=False)
    second = spark_cache.settle(GIB, 5, check_mode=False)
    assert (first["changed"], first["dropped"], first["reason"]) == (True, True, "")
    assert first["freed_bytes"] == 29_000_000 * 1024
    assert (second["changed"], second["dropped"], second["freed_bytes"]) == (False, False, 0)
    assert second["reason"] == "page cache is 0.5 GiB, up to 1.0 GiB is left alone"


@pytest.mark.usefixtures("node")
def test_check_mode_says_what_it_would_do() -> None:
    """Check mode reports a change and makes none."""
    answer = spark_cache.settle(GIB, 5, check_mode=True)
    assert (answer["changed"], answer["dropped"], answer["freed_bytes"]) == (True, False, 0)
    assert spark_cache.settle(GIB, 5, check_mode=True)["changed"] is True


def test_a_refused_sudo_is_a_result(node: Node) -> None:
    """Without a right to drop caches nothing changed, and the reason is sudo's own."""
    node.tool("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    answer = spark_cache.settle(GIB, 5, check_mode=False)
    assert (answer["changed"], answer["dropped"]) == (False, False)
    assert answer["reason"] == "sudo: a password is required (rc 1)"


def test_unreadable_memory_is_a_fault(node: Node) -> None:
    """A node that cannot tell its memory fails the task with the command's words."""
    node.tool("cat", "echo 'cat: /proc/meminfo: Input/output error' >&2; exit 1")
    with pytest.raises(ValueError, match="rc 1: cat: /proc/meminfo: Input/output error"):
        spark_cache.settle(GIB, 5, check_mode=False)


def test_shared_memory_does_not_count_as_cache() -> None:
    """The kernel counts Shmem in Cached, and dropping caches does not free it."""
    meminfo = "MemFree: 10 kB\nMemAvailable: 20 kB\nCached: 30 kB\nShmem: 25 kB\nHugePages_Total: 0\n"
    assert spark_cache.sizes(meminfo) == {
        "free_bytes": 10240,
        "available_bytes": 20480,
        "cached_bytes": 5120,
    }


def test_a_missing_line_is_named() -> None:
    """A memory report of another shape is refused, with what it lacks."""
    with pytest.raises(ValueError, match="lacks MemAvailable, Shmem"):
        spark_cache.sizes("MemFree: 10 kB\nCached: 5 kB\n")
