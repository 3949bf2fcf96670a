"""Memory of a node from /proc/meminfo."""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread
from bootcheck.probes.probe import Probe
from sparkctl.units import KIB

_ROW = re.compile(r"^(\w+(?:\(\w+\))?):\s+(\d+) kB$", re.MULTILINE)
_WANTED = ("MemTotal", "MemFree", "MemAvailable", "Cached")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """/proc/meminfo in bytes. CUDA's free memory on GB10 is MemFree; vLLM's start check reads MemAvailable."""

    probe: ClassVar[str] = "memory"

    total: int
    free: int
    available: int
    cached: int


def parse_meminfo(record: Record) -> Memory | Unread:
    """Read `cat /proc/meminfo`; its kB are KiB."""
    rows = {name: int(value) * KIB for name, value in _ROW.findall(record.stdout)}
    missing = [name for name in _WANTED if name not in rows]
    if missing:
        return Unread(probe=record.probe, why=f"no {', '.join(missing)} in /proc/meminfo", seen=record.stdout)
    total, free, available, cached = (rows[name] for name in _WANTED)
    if not 0 < max(free, available) <= total:
        return Unread(
            probe=record.probe, why="free memory is not between zero and the total", seen=record.stdout
        )
    return Memory(total=total, free=free, available=available, cached=cached)


PROBES = (
    Probe(
        name="memory",
        about="total, free and available memory, page cache",
        argvs=lambda _: (("cat", "/proc/meminfo"),),
        parse=parse_meminfo,
        limit_s=5,
    ),
)
