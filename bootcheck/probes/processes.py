"""Processes of a node from ps: who holds memory, which memory killers run, which engine outlived its container."""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread
from bootcheck.probes.probe import Probe, ends_early
from sparkctl.units import KIB

# pid, ppid, seconds since it started, resident KiB, command line, which a process may blank. Eighteen digits hold any number a
# kernel can print.
_ROW = re.compile(r"^\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})(?:\s+(\S.*?))?\s*$", re.ASCII)
# vLLM names its processes so (VLLM::EngineCore, VLLM::Worker_TP0).
_ENGINE = re.compile(r"^(VLLM::|EngineCore)")


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
        return self.command.split(" ")[0].rpartition("/")[2] or self.command or "a process without a name"

    @property
    def is_engine(self) -> bool:
        """Whether it is one of vLLM's engine and its workers."""
        return is_engine(self.command)

    @property
    def is_ending(self) -> bool:
        """Whether it was an engine and has given up its memory: ps has brackets round a name without arguments."""
        return self.command.startswith("[") and is_engine(self.command[1:])


def is_engine(title: str) -> bool:
    """Whether a process title is one of vLLM's engine and its workers."""
    return _ENGINE.match(title) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """Every process of the node, kernel threads among them; `unread` are single rows that ps printed otherwise than asked."""

    probe: ClassVar[str] = "processes"

    running: tuple[Running, ...]
    unread: tuple[str, ...] = ()


def parse_processes(record: Record) -> ProcessTable | Unread:
    """Read `ps -eo pid=,ppid=,etimes=,rss=,args=`. A row that does not fit is kept as it is, unless most are so."""
    lines = [line for line in record.stdout.split("\n") if line.strip()]
    rows = [_ROW.match(line) for line in lines]
    running = tuple(
        Running(
            pid=int(row[1]),
            parent=int(row[2]),
            age_s=int(row[3]),
            memory=int(row[4]) * KIB,
            command=row[5] or "",
        )
        for row in rows
        if row
    )
    unread = tuple(line.strip() for line, row in zip(lines, rows, strict=True) if not row)
    if record.rc != 0 or ends_early(record) or len(running) <= len(unread):
        why = record.stderr.strip() or "not the five columns that ps was asked for"
        return Unread(probe=record.probe, why=why, seen=next(iter(unread), record.stdout))
    return ProcessTable(running=running, unread=unread)


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
