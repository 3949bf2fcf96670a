"""Memory of a node from /proc/meminfo."""

import re

from bootcheck.facts import Memory, Record, Unread
from sparkctl.units import KIB

_ROW = re.compile(r"^(\w+(?:\(\w+\))?):\s+(\d+) kB$", re.MULTILINE)
_WANTED = ("MemTotal", "MemFree", "MemAvailable", "Cached")


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
