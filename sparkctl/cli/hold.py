"""Hold a line: one controller at a time boots, measures or stops it. The lock goes with the process that has it.

The lock belongs to the nodes and not to a state folder: two inventories or two folders that mean the same nodes share it.
It is one of this controller and user; another controller is not seen.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkctl import ansible
from sparkctl.errors import FileFault, Refused
from sparkctl.line import Line


@contextmanager
def hold(line: Line) -> Iterator[int]:
    """Hold `line` for the block; gives how many processes of a dead controller were ended first.

    Whoever has the lock knows that nobody else works on the line: an Ansible that still carries its mark is what a killed
    controller left, and would go on starting ranks.

    Raises:
        Refused: another process works on the line.

    """
    descriptor = _open(line)
    try:
        if not _take(descriptor):
            raise Refused(
                f"line {line.name} is in use by another sparkctl (pid {_holder(descriptor)})",
                hint="wait until it is done, or stop it; sparkctl status may be run beside it",
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield ansible.end_orphans(line)
    finally:
        os.close(descriptor)


def holder(line: Line) -> str:
    """Return the process that works on the line, or an empty text."""
    descriptor = _open(line)
    try:
        return "" if _take(descriptor) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _open(line: Line) -> int:
    folder = Path(tempfile.gettempdir()) / f"sparkctl-{os.getuid()}"
    path = folder / f"line-{line.identity}.lock"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        raise FileFault(
            f"{path}: cannot be written: {fault}", hint="name a folder that can be in TMPDIR"
        ) from fault


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
