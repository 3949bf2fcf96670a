"""uname and hostname of a practice node; and the figures of its memory."""

import sys
from pathlib import Path

from rehearsal.faces import residents
from rehearsal.faces.settings import MIN_FREE, PAGE_KIB, setting
from rehearsal.node import Node, changes, page_cache_kib, read

# A fresh GB10 as public captures show it, in KiB.
TOTAL_KIB = 127_600_412
_FREE = 121_944_516
_AVAILABLE = 122_303_908
_CACHED = 727_304
_ANON = 214_884
_SWAP = 16_777_212
_CMA_TOTAL = 131_072
_KEPT_FREE = 2_600_000  # below this the kernel gives page cache back
_USUAL_MIN_FREE = 45_056  # the kernel's own value on a GB10 (reported), which the captures were taken with
_RESERVED = 1.5  # MemAvailable leaves the high watermark out, and it lies half as far again above min_free (mm/page_alloc.c)

_ORDERS = 11
_HUGE = 9  # the first order whose blocks are 2 MiB or more
_DMA_PAGES = 442_000  # what a fresh node has free below 4 GiB; ours, chosen
_SPLINTERS = (
    0.004,
    0.003,
    0.003,
    0.002,
    0.002,
    0.002,
    0.002,
    0.002,
    0.002,
    0.002,
)  # share by order; ours, chosen


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    node = read(root)
    return _uname(node, arguments) if name == "uname" else _hostname(node, arguments)


def memory_kib(root: Path) -> dict[str, int]:
    """Return the figures of /proc/meminfo that move: what ranks hold is gone, page cache shrinks before they starve."""
    return _memory(read(root))


def _memory(node: Node) -> dict[str, int]:
    used = residents.held(node)
    held = (used.gpu + used.host) * 1024
    cache = max(0, min(page_cache_kib(node.root), _FREE - held - _KEPT_FREE))
    reserved = round((int(setting(node, MIN_FREE)) - _USUAL_MIN_FREE) * _RESERVED)
    return {
        "MemFree": max(_FREE - held - cache, 500_000),
        "MemAvailable": max(_AVAILABLE - held - cache // 50 - reserved, 100_000),
        "Cached": _CACHED + cache,
        "AnonPages": _ANON + used.host * 1024,
    }


def meminfo(node: Node) -> str:
    """Return /proc/meminfo."""
    moving = _memory(node)
    lines = {
        "MemTotal": TOTAL_KIB,
        "MemFree": moving["MemFree"],
        "MemAvailable": moving["MemAvailable"],
        "Buffers": 38_112,
        "Cached": moving["Cached"],
        "SwapCached": 0,
        "Active": 412_220,
        "Inactive": moving["Cached"] - 36_856,
        "SwapTotal": _SWAP,
        "SwapFree": _SWAP - round(node.traits.swap_used_gib * 1024**2),
        "Dirty": 312,
        "AnonPages": moving["AnonPages"],
        "Mapped": 180_332,
        "Shmem": 11_020,
        "HugePages_Total": 0,
        "HugePages_Free": 0,
        "Hugepagesize": 2_048,
        "CmaTotal": _CMA_TOTAL,
        "CmaFree": node.traits.cma_free_kib,
    }
    return "".join(_line(key, value) for key, value in lines.items())


def _line(key: str, value: int) -> str:
    return f"{key + ':':<16}{value:>8}" + ("\n" if key.startswith("HugePages_") else " kB\n")


def buddyinfo(node: Node) -> str:
    """Return /proc/buddyinfo: free blocks by zone and order, together what MemFree says."""
    pages = _memory(node)["MemFree"] // PAGE_KIB
    splintered = node.traits.fragmented and not changes(node.root).compacted
    low = min(_DMA_PAGES, pages // 8)
    zones = {"DMA": low, "Normal": pages - low}
    return "".join(
        f"Node 0, zone {zone:>8} " + "".join(f"{count:>6} " for count in _blocks(size, splintered)) + "\n"
        for zone, size in zones.items()
    )


def _blocks(pages: int, splintered: bool) -> list[int]:  # noqa: FBT001 - a table's column, not a switch of behaviour
    """Return how many free blocks of each order make up so many pages."""
    last = _HUGE if splintered else _ORDERS
    shares = [1 / _HUGE] * (_HUGE - 1) if splintered else _SPLINTERS
    counts = [int(pages * share) >> order for order, share in enumerate(shares)]
    rest = pages - sum(count << order for order, count in enumerate(counts))
    counts.append(rest >> (last - 1))
    counts[0] += rest - (counts[-1] << (last - 1))
    return counts + [0] * (_ORDERS - last)


def cmdline(node: Node) -> str:
    """Return /proc/cmdline."""
    return (
        f"BOOT_IMAGE=/boot/vmlinuz-{node.traits.kernel} root=/dev/nvme0n1p2 {node.traits.kernel_arguments}\n"
    )


def _uname(node: Node, arguments: list[str]) -> int:
    parts = {
        "s": "Linux",
        "n": node.name,
        "r": node.traits.kernel,
        "v": "#32-Ubuntu SMP PREEMPT_DYNAMIC",
        "m": "aarch64",
        "o": "GNU/Linux",
    }
    letters = "".join(argument.lstrip("-") for argument in arguments) or "s"
    wrong = [letter for letter in letters if letter not in {*parts, "a"}]
    if wrong:
        sys.stderr.write(f"uname: invalid option -- '{wrong[0]}'\nTry 'uname --help' for more information.\n")
        return 1
    shown = [text for letter, text in parts.items() if letter in letters or "a" in letters]
    sys.stdout.write(" ".join(shown) + "\n")
    return 0


def _hostname(node: Node, arguments: list[str]) -> int:
    addresses = [node.self.management, *(rail.address for rail in node.self.rails)]
    shown = {"": node.name, "-s": node.name, "-f": node.name, "-I": " ".join(addresses)}
    asked = " ".join(arguments)
    if asked not in shown:
        sys.stderr.write("hostname: you must be root to change the host name\n")
        return 1
    sys.stdout.write(shown[asked] + "\n")
    return 0
