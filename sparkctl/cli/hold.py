"""Hold a line: one controller at a time boots, measures or stops it. The lock goes with the process that has it.

The lock belongs to the nodes and not to a state folder: two inventories or two folders that mean the same nodes share it.
It is one of this controller and user; another controller is not seen.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkctl.errors import FileFault, Refused
from sparkctl.line import Line


@contextmanager
def hold(line: Line) -> Iterator[None]:
    """Hold `line` for the block.

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
        yield
    finally:
        os.close(descriptor)


def holder(line: Line) -> str:
    """Return the process that works on the line, or an empty text."""
    descriptor = _open(line)
    try:
        return "" if _take(descriptor) else _holder(descriptor)
    finally:
        os.close(descriptor)


def lock_path(line: Line) -> Path:
    """Return the lock's file, in a folder of this user's own that is the same whatever the environment says.

    The kernel gives a logged-in user one that nobody else can write and no cleaner touches; else it lies in /tmp.
    """
    own = Path("/run/user", str(os.getuid()))
    folder = own / "sparkctl" if own.is_dir() else Path("/tmp", f"sparkctl-{os.getuid()}")  # noqa: S108 - see _demand_own
    return folder / f"line-{line.identity}.lock"


def _open(line: Line) -> int:
    path = lock_path(line)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _demand_own(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as fault:
        raise FileFault(
            f"{path}: cannot be written: {fault}",
            hint=f"make {path.parent} a folder of your own, with mode 700",
        ) from fault


def _demand_own(folder: Path) -> None:
    """Refuse a folder that somebody else made: a link in it would have us write elsewhere."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is no folder of this user's alone")


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
