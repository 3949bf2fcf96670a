"""Processes of a node from ps: who holds memory, which memory killers run, which engine outlived its container."""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread
from bootcheck.probes.probe import Probe
from sparkctl.units import KIB

# pid, ppid, seconds since it started, resident KiB, command line. Eighteen digits hold any number a kernel can print.
_ROW = re.compile(r"^\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s+(\S.*)$", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One process. `memory` is its resident set in bytes, which does not count what it holds on the GPU."""

    pid: int
    parent: int
    age_s: int
    memory: int
    command: str

    @property
    def name(self) -> str:
        """The program without its folder: `earlyoom` of `/usr/bin/earlyoom -m 5`; a process title as it is."""
        return self.command.split(" ")[0].rpartition("/")[2] or self.command


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """Every process of the node, kernel threads among them."""

    probe: ClassVar[str] = "processes"

    running: tuple[Running, ...]


def parse_processes(record: Record) -> ProcessTable | Unread:
    """Read `ps -eo pid=,ppid=,etimes=,rss=,args=`; one row that does not fit makes the whole table unread."""
    lines = [line for line in record.stdout.split("\n") if line.strip()]
    rows = [_ROW.match(line) for line in lines]
    running = tuple(
        Running(
            pid=int(row[1]),
            parent=int(row[2]),
            age_s=int(row[3]),
            memory=int(row[4]) * KIB,
            command=row[5].rstrip(),
        )
        for row in rows
        if row
    )
    if record.rc != 0 or not lines or len(running) != len(lines):
        strange = next((line for line, row in zip(lines, rows, strict=True) if not row), record.stdout)
        why = record.stderr.strip() or "not the five columns that ps was asked for"
        return Unread(probe=record.probe, why=why, seen=strange)
    return ProcessTable(running=running)


PROBES = (
    Probe(
        name="processes",
        moves=True,
        about="every process with its parent, age, resident memory and command line",
        argvs=lambda _: (("ps", "-eo", "pid=,ppid=,etimes=,rss=,args="),),
        parse=parse_processes,
        limit_s=10,
    ),
)
