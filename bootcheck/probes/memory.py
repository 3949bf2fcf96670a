"""Memory of a node: /proc/meminfo, the free blocks by size, the page size and what the kernel keeps back."""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Probe, ends_early
from sparkctl.units import KIB

MEMINFO_ARGV = ("cat", "/proc/meminfo")

# Eighteen digits hold any number a kernel can print; a longer one is no number.
_ROW = re.compile(r"^(\w+(?:\(\w+\))?):\s+(\d{1,18}) kB$", re.MULTILINE | re.ASCII)
_WANTED = ("MemTotal", "MemFree", "MemAvailable", "Cached")
_ZONE = re.compile(r"^(Node +\d{1,4}, zone +\w+)((?: +\d{1,18})+)\s*$", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """/proc/meminfo in bytes. CUDA's free memory on GB10 is MemFree; vLLM's start check reads MemAvailable.

    The later ones are None where the kernel does not print them.
    """

    probe: ClassVar[str] = "memory"

    total: int
    free: int
    available: int
    cached: int
    anon: int | None = None
    shmem: int | None = None
    swap_total: int | None = None
    swap_free: int | None = None
    cma_total: int | None = None
    cma_free: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """/proc/buddyinfo: how many free blocks of 1, 2, 4, ... pages there are, over all zones."""

    probe: ClassVar[str] = "blocks"

    free: tuple[int, ...]

    def bytes_from(self, least: int, page: int) -> int:
        """Return the free bytes that lie in blocks of at least `least` bytes, with pages of `page` bytes."""
        sizes = (page << order for order in range(len(self.free)))
        return sum(size * count for size, count in zip(sizes, self.free, strict=True) if size >= least)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSize:
    """The kernel's page size in bytes: 4 KiB or 64 KiB on GB10."""

    probe: ClassVar[str] = "page-size"

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MinFree:
    """vm.min_free_kbytes in bytes: what the kernel's lowest watermark keeps back."""

    probe: ClassVar[str] = "min-free"

    kept: int


def parse_meminfo(record: Record) -> Memory | Unread:
    """Read `cat /proc/meminfo`; its kB are KiB."""
    rows = {name: int(value) * KIB for name, value in _ROW.findall(record.stdout)}
    missing = [name for name in _WANTED if name not in rows]
    if missing:
        return unread(record, f"no {', '.join(missing)} in /proc/meminfo")
    total, free, available, cached = (rows[name] for name in _WANTED)
    if not 0 < max(free, available) <= total or cached > total:
        return unread(record, "free or cached memory is not between zero and the total")
    swap_total, swap_free = rows.get("SwapTotal"), rows.get("SwapFree")
    if swap_total is not None and swap_free is not None and swap_free > swap_total:
        return unread(record, "more swap is free than there is")
    return Memory(
        total=total,
        free=free,
        available=available,
        cached=cached,
        anon=rows.get("AnonPages"),
        shmem=rows.get("Shmem"),
        swap_total=swap_total,
        swap_free=swap_free,
        cma_total=rows.get("CmaTotal"),
        cma_free=rows.get("CmaFree"),
    )


def parse_blocks(record: Record) -> Blocks | Unread:
    """Read `cat /proc/buddyinfo`: a zone a line, each once and with the same number of sizes."""
    zones = [_ZONE.match(line) for line in record.stdout.splitlines() if line.strip()]
    counts = [[int(one) for one in zone[2].split()] for zone in zones if zone]
    names = {zone[1] for zone in zones if zone}
    # A kernel has at least eleven sizes (MAX_ORDER 10); fewer means a line that was cut.
    sizes = {len(one) for one in counts}
    if ends_early(record) or len(names) != len(zones) or len(sizes) != 1 or min(sizes) < 11:
        return unread(record, "not the zones of /proc/buddyinfo")
    return Blocks(free=tuple(sum(column) for column in zip(*counts, strict=True)))


def parse_page_size(record: Record) -> PageSize | Unread:
    """Read `getconf PAGESIZE`: a power of two."""
    size = _whole_number(record.stdout)
    if size is None or not 4 * KIB <= size <= 64 * KIB or size & (size - 1):
        return unread(record, "not a page size")
    return PageSize(size=size)


def parse_min_free(record: Record) -> MinFree | Unread:
    """Read `cat /proc/sys/vm/min_free_kbytes`."""
    kept = _whole_number(record.stdout)
    if kept is None or ends_early(record):
        return unread(record, "not a number of KiB")
    return MinFree(kept=kept * KIB)


def _whole_number(text: str) -> int | None:
    found = _NUMBER.fullmatch(text.strip())
    return int(found[0]) if found else None


PROBES = (
    Probe(
        name="memory",
        moves=True,
        about="total, free and available memory, page cache, swap, CMA",
        argvs=lambda _: (MEMINFO_ARGV,),
        parse=parse_meminfo,
        limit_s=5,
    ),
    Probe(
        name="blocks",
        moves=True,
        about="free memory by the size of its contiguous blocks",
        argvs=lambda _: (("cat", "/proc/buddyinfo"),),
        parse=parse_blocks,
        limit_s=5,
    ),
    Probe(
        name="page-size",
        about="the kernel's page size",
        argvs=lambda _: (("getconf", "PAGESIZE"),),
        parse=parse_page_size,
        limit_s=5,
    ),
    Probe(
        name="min-free",
        moves=True,
        about="what the kernel keeps back from every allocation",
        argvs=lambda _: (("cat", "/proc/sys/vm/min_free_kbytes"),),
        parse=parse_min_free,
        limit_s=5,
    ),
)
