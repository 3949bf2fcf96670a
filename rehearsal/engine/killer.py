"""earlyoom on a practice node: whether it ends the rank at the memory that is left, and what the journal says of it."""

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rehearsal.faces.journal import Note, note

KILLED = 143
"""Exit code of a container whose process SIGTERM ended."""

_PID = 912
_NAME = 15  # bytes of a process name that the kernel keeps
_DEFAULT = 10.0  # per cent of memory and of swap (earlyoom's manual)


class Limits(NamedTuple):
    """When earlyoom sends SIGTERM: at or below both, in per cent of the whole."""

    memory: float
    swap: float


def limits(command: str, total_kib: int) -> Limits | None:
    """Read earlyoom's command line (`earlyoom -m 12 -s 100`, `-M KIB`); None for no killer, or one that we do not play."""
    words = command.split()
    if not words or words[0].rpartition("/")[2] != "earlyoom":
        return None
    told = {
        flag: float(value.partition(",")[0]) for flag, value in pairwise(words) if flag in {"-m", "-M", "-s"}
    }
    memory = 100 * told["-M"] / total_kib if "-M" in told else told.get("-m", _DEFAULT)
    return Limits(memory, told.get("-s", _DEFAULT))


def strikes(at: Limits, available: float, swap: float) -> bool:
    """Whether earlyoom would end a process now; both figures in per cent."""
    return available <= at.memory and swap <= at.swap


def report(root: Path, at: Limits, victim: str, rss_mib: int) -> None:
    """Note in the node's journal what earlyoom says when it ends a process of ours."""
    now, source = time.time(), f"earlyoom[{_PID}]"
    note(
        root,
        Note(
            now,
            source,
            f"low memory! at or below SIGTERM limits: mem {at.memory:5.2f}%, swap {at.swap:5.2f}%",
        ),
        Note(
            now,
            source,
            f'sending SIGTERM to process {os.getpid()} uid 0 "{victim[:_NAME]}": badness 1010, VmRSS {rss_mib} MiB',
        ),
        Note(now + 1, source, "process exited after 0.6 seconds"),
    )
