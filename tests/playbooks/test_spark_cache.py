"""playbooks/library/spark_cache.py: the page cache is dropped where it matters, and the answer is honest."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

import pytest
import spark_cache

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Node

GIB = 1024**3


@pytest.mark.usefixtures("node")
def test_a_full_cache_is_dropped_and_a_small_one_left() -> None:
    """The first call frees what the node's memory gained, the second changes nothing."""
    first = spark_cache.settle(GIB, 0.5, [], 5, check_mode=False)
    second = spark_cache.settle(GIB, 0.5, [], 5, check_mode=False)
    assert (first["changed"], first["dropped"], first["reason"]) == (True, True, "")
    assert first["freed_bytes"] == 29_000_000 * 1024
    assert (second["changed"], second["dropped"], second["freed_bytes"]) == (False, False, 0)
    assert second["note"] == "page cache is 0.5 GiB, up to 1.0 GiB is left alone"


def test_scattered_memory_is_compacted(node: Node) -> None:
    """A small page cache is no excuse when no large blocks are left; afterwards nothing is done again."""
    node.tool(
        "sudo", f"""cp {node.home}/settled {node.home}/meminfo; cp {node.home}/whole {node.home}/buddyinfo"""
    )
    (node.home / "meminfo").write_text((node.home / "settled").read_text())
    (node.home / "buddyinfo").write_text("Node 0, zone   Normal 900000 900000 9 0 0 0 0 0 0 1 0\n")
    first = spark_cache.settle(GIB, 0.5, [], 5, check_mode=False)
    second = spark_cache.settle(GIB, 0.5, [], 5, check_mode=False)
    assert (first["changed"], first["how"]) == (True, "drop_caches")
    assert first["before"]["contiguous_bytes"] == 2 * 1024**2
    assert first["after"]["contiguous_bytes"] > 100 * GIB
    assert second["changed"] is False


@pytest.mark.parametrize("text", ["", "nonsense", "Node 0, zone Normal 1 x 3", "zone"])
def test_blocks_that_cannot_be_read_are_unknown(text: str) -> None:
    """Another tool's words give no number, and no reason to compact."""
    assert spark_cache.contiguous(text, 4096) is None


def test_a_64_kib_page_reaches_2_mib_five_orders_up() -> None:
    """The order at which a block is large follows from the page size."""
    row = "Node 0, zone Normal 1 1 1 1 1 1 0 0 0 0 0"
    assert spark_cache.contiguous(row, 65536) == 2 * 1024**2
    assert spark_cache.contiguous(row, 4096) == 0


def test_without_sudo_the_model_files_are_forgotten(node: Node) -> None:
    """Where sudo refuses, the cached pages of the files go all the same, which needs no right but to read them."""
    node.tool("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    folder = node.home / "model"
    folder.mkdir()
    shard = folder / "model-00001-of-00001.safetensors"
    with shard.open("wb") as file:
        file.write(b"x" * (8 * 1024**2))
        os.fsync(file.fileno())
    assert _resident_pages(shard) > 1000
    answer = spark_cache.settle(GIB, 0.5, [str(folder)], 5, check_mode=False)
    assert (answer["changed"], answer["how"]) == (True, "fadvise")
    assert answer["reason"] == "sudo: a password is required (rc 1)"
    assert _resident_pages(shard) < 100


def _resident_pages(path: Path) -> int:
    """Count the file's pages in the page cache, with mincore(2)."""
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    seen = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    with path.open("rb") as file:
        at = libc.mmap(None, ctypes.c_size_t(size), 1, 1, file.fileno(), ctypes.c_long(0))
        try:
            assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), seen) == 0
        finally:
            libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
    return sum(one & 1 for one in seen)


@pytest.mark.usefixtures("node")
def test_check_mode_says_what_it_would_do() -> None:
    """Check mode reports a change and makes none."""
    answer = spark_cache.settle(GIB, 0.5, [], 5, check_mode=True)
    assert (answer["changed"], answer["dropped"], answer["freed_bytes"]) == (True, False, 0)
    assert spark_cache.settle(GIB, 0.5, [], 5, check_mode=True)["changed"] is True


def test_a_refused_sudo_is_a_result(node: Node) -> None:
    """Without a right to drop caches nothing changed, and the reason is sudo's own."""
    node.tool("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    answer = spark_cache.settle(GIB, 0.5, [], 5, check_mode=False)
    assert (answer["changed"], answer["dropped"]) == (False, False)
    assert answer["reason"] == "sudo: a password is required (rc 1)"


def test_unreadable_memory_is_a_fault(node: Node) -> None:
    """A node that cannot tell its memory fails the task with the command's words."""
    node.tool("cat", "echo 'cat: /proc/meminfo: Input/output error' >&2; exit 1")
    with pytest.raises(ValueError, match="rc 1: cat: /proc/meminfo: Input/output error"):
        spark_cache.settle(GIB, 0.5, [], 5, check_mode=False)


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
