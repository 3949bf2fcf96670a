"""Processes by pid and start time, so that a recycled pid is never taken for the one we started. Linux only."""

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

MARK = "SPARKCTL_REHEARSAL"
"""Environment variable that every process of a practice cluster carries; its value is the cluster's own token."""

_ANSWER_S = 3.0


class Process(NamedTuple):
    """A process as /proc tells it."""

    pid: int
    start: int
    """Start time in clock ticks since the machine's boot."""


def look(pid: int) -> Process | None:
    """Return the living process with that pid; a zombie counts as gone."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return None
    return None if fields[0] in {"Z", "X"} else Process(pid, int(fields[19]))


def is_alive(process: Process) -> bool:
    """Whether this very process still runs."""
    return look(process.pid) == process


def send(process: Process, number: int) -> None:
    """Send a signal to this very process; one that has gone is left alone."""
    if is_alive(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def marked(token: str) -> tuple[Process, ...]:
    """Return every living process that carries the cluster's token, this one excepted."""
    wanted = f"{MARK}={token}".encode()
    found = [_carrying(int(entry.name), wanted) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return tuple(process for process in found if process and process.pid != os.getpid())


def _carrying(pid: int, wanted: bytes) -> Process | None:
    process = look(pid)
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    return process if wanted in environment.split(b"\0") else None


def end(processes: tuple[Process, ...], limit_s: float) -> tuple[Process, ...]:
    """Ask the processes to end, wait, then force them; return those that are still there."""
    for number, seconds in ((signal.SIGTERM, limit_s), (signal.SIGKILL, _ANSWER_S)):
        for process in processes:
            send(process, number)
        until = time.monotonic() + seconds
        while any(map(is_alive, processes)) and time.monotonic() < until:
            time.sleep(0.01)
    return tuple(filter(is_alive, processes))
