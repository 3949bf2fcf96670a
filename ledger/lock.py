"""The lock beside the ledger: one writer at a time, and no reader while a row is half written.

`flock` on a file of its own goes with its process, so a killed writer leaves nothing to clean up. The pid inside is
only there to be named to whoever waits in vain.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkctl.errors import LedgerFault

_POLL_S = 0.005  # an append takes a few milliseconds, most of it the fsync


@contextmanager
def writing(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the ledger at `path` for one append.

    Raises:
        LedgerFault: another process held it all the while; the hint names its pid.

    """
    sidecar = os.open(_sidecar(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _wait(sidecar, fcntl.LOCK_EX, path, wait_s)
        os.pwrite(sidecar, f"{os.getpid()}\n".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(sidecar, 0)
    finally:
        os.close(sidecar)


@contextmanager
def reading(path: Path, *, wait_s: float) -> Iterator[None]:
    """Keep writers out while the ledger at `path` is read; one that was never written here needs no lock.

    Raises:
        LedgerFault: a writer held it all the while; the hint names its pid.

    """
    try:
        sidecar = os.open(_sidecar(path), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        _wait(sidecar, fcntl.LOCK_SH, path, wait_s)
        yield
    finally:
        os.close(sidecar)


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _wait(sidecar: int, how: int, path: Path, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while not _taken(sidecar, how):
        if time.monotonic() >= until:
            pid = os.pread(sidecar, 32, 0).decode("ascii", "replace").strip()
            holder = f"process {pid} holds it" if pid else "another process is reading it"
            raise LedgerFault(
                f"{path}: locked for more than {wait_s:g} s",
                hint=f"{holder}; wait for it to end, or look at it with `ps -p {pid or 'PID'}`",
            )
        time.sleep(_POLL_S)


def _taken(sidecar: int, how: int) -> bool:
    try:
        fcntl.flock(sidecar, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
