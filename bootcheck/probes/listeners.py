"""What waits on a node: listening TCP sockets, and the segments in its shared memory."""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Probe, ends_early
from sparkctl.units import KIB

_SOCKET = re.compile(r"^LISTEN\s+\d+\s+\d+\s+(\S+):(\d{1,5})\s+\S+(?:\s+users:\((.*)\))?\s*$")
_USER = re.compile(r'\("((?:[^"\\]|\\.)*)",pid=(\d{1,18}),fd=\d+\)')
_EVERYWHERE = frozenset({"0.0.0.0", "*", "[::]", "::"})  # noqa: S104  # what a socket is bound to, not what we bind
_TOTAL = re.compile(r"^total (\d{1,18})$")
_SEGMENT = re.compile(
    r"^[-dlpscb][-rwxsStT]{9}[.+@]?\s+\d+\s+(\S+)\s+\S+\s+(\d{1,18})\s+\S+\s+\S+\s+\S+\s+(.+)$"
)
# A device has two numbers where a size stands, and takes no memory; of what may not be looked at ls knows nothing.
_SIZELESS = re.compile(r"^(?:[cb][-rwxsStT]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+\d+,\s+\d+\s+\S|[-dlpscb]\?{9}\s)")


def is_everywhere(address: str) -> bool:
    """Whether a socket of that address is reached on every address of its node."""
    return address in _EVERYWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One listening socket; `process` is empty and `pid` None where ss does not name another user's process."""

    address: str
    port: int
    process: str = ""
    pid: int | None = None

    @property
    def is_wildcard(self) -> bool:
        """Whether it listens on every address of the node."""
        return is_everywhere(self.address)

    @property
    def shown(self) -> str:
        """Where and by whom."""
        named = f"{self.process} (pid {self.pid})" if self.process else "a process that ss does not name"
        return f"{self.address}:{self.port} by {named}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """All listening TCP sockets of a node."""

    probe: ClassVar[str] = "listeners"

    found: tuple[Listener, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One file in /dev/shm; `size` in bytes is what it may fill."""

    name: str
    owner: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The node's /dev/shm; `used` in bytes is what its files hold now."""

    probe: ClassVar[str] = "shared-memory"

    used: int
    segments: tuple[Segment, ...]


def parse_listeners(record: Record) -> Listeners | Unread:
    """Read `ss -ltnp`. Columns move with their contents, so that only the words of a row count."""
    lines = [line for line in record.stdout.splitlines() if line.strip()]
    if record.rc != 0 or not lines or not lines[0].startswith("State"):
        why = record.stderr.strip() or "no header of ss -ltnp"
        return unread(record, why)
    found = []
    for line in lines[1:]:
        row = _SOCKET.match(line)
        if not row or int(row[2]) > 65535:
            return Unread(probe=record.probe, why="not a row of ss -ltnp", seen=line)
        user = _USER.search(row[3] or "")
        found.append(
            Listener(
                address=row[1],
                port=int(row[2]),
                process=user[1] if user else "",
                pid=int(user[2]) if user else None,
            )
        )
    return Listeners(found=tuple(found))


def parse_shared_memory(record: Record) -> SharedMemory | Unread:
    """Read `ls -l /dev/shm`; its total is in KiB, and a hole in a file does not count."""
    lines = [line for line in record.stdout.splitlines() if line.strip()]
    total = _TOTAL.match(lines[0]) if lines else None
    sized = [line for line in lines[1:] if not _SIZELESS.match(line)]
    rows = [_SEGMENT.match(line) for line in sized]
    if not total or not all(rows) or ends_early(record):
        strange = next((line for line, row in zip(sized, rows, strict=True) if not row), record.stdout)
        why = record.stderr.strip() or "not the rows of ls -l"
        return Unread(probe=record.probe, why=why, seen=strange)
    segments = tuple(Segment(name=row[3], owner=row[1], size=int(row[2])) for row in rows if row)
    return SharedMemory(used=int(total[1]) * KIB, segments=segments)


PROBES = (
    Probe(
        name="listeners",
        moves=True,
        about="listening TCP sockets and who holds them",
        argvs=lambda _: (("ss", "-ltnp"),),
        parse=parse_listeners,
        limit_s=5,
    ),
    Probe(
        name="shared-memory",
        moves=True,
        about="what lies in /dev/shm",
        argvs=lambda _: (("ls", "-l", "/dev/shm"),),  # noqa: S108  # looked at, not written to
        parse=parse_shared_memory,
        limit_s=5,
    ),
)
