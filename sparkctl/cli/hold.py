"""Hold a line: one controller at a time boots, measures or stops it. The lock goes with the process that has it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkctl.cli.session import Session
from sparkctl.errors import FileFault, Refused
from sparkctl.line import Line


def holder(state: Path) -> str:
    """Return the process that works on a line of this state folder, or an empty text."""
    for path in state.glob("line-*.lock"):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read(32).decode(errors="replace").strip() or "unknown"
    return ""


@contextmanager
def hold(session: Session, line: Line) -> Iterator[None]:
    """Hold `line` for the block.

    Raises:
        Refused: another process of this state folder works on the line.

    """
    path = session.state / f"line-{line.name.lower()}.lock"
    try:
        session.state.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as fault:
        raise FileFault(
            f"{path}: cannot be written: {fault}", hint="name another folder with --state"
        ) from fault
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            raise Refused(
                f"line {line.name} is in use by another sparkctl (pid {pid})",
                hint="wait until it is done, or stop it; sparkctl status may be run beside it",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)
