"""One command on a node: its argv in, what it printed out, always within a time limit.

Shared by the modules in `library/`; runs on the node with nothing but the standard library. A tool that is missing,
that hangs or that floods its output is a result with a shell's exit code (127, 124), never an exception.
"""

import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import IO

KEPT_BYTES = (
    1024 * 1024
)  # a probe prints some KiB, docker inspect about ten a container; a tool gone wild must not fill our memory
GRACE_S = 0.5  # between SIGTERM, which `docker run` hands on to its container, and SIGKILL
DRAIN_S = 1.0  # a grandchild that left the process group may hold a pipe open for ever


@dataclass(frozen=True)
class Outcome:
    """What a command did; `seconds` is its wall time."""

    argv: list[str]
    rc: int
    stdout: str
    stderr: str
    seconds: float


@dataclass
class _Stream:
    """Reads a pipe to its end in the background and keeps the first `KEPT_BYTES`."""

    pipe: IO[bytes]
    kept: bytearray = field(default_factory=bytearray)
    seen: int = 0

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._drain, daemon=True)
        self.thread.start()

    def _drain(self) -> None:
        with self.pipe:
            while chunk := os.read(self.pipe.fileno(), 65536):
                self.kept += chunk[: KEPT_BYTES - len(self.kept)]
                self.seen += len(chunk)

    def text(self, until_s: float) -> str:
        """Return what was kept, marked when cut, waiting for the pipe's end until the monotonic time `until_s`."""
        self.thread.join(max(0.0, until_s - time.monotonic()))
        text = bytes(self.kept).decode("utf-8", errors="replace")
        cut = self.seen - len(self.kept)
        return f"{text}\n[cut: {cut} more bytes]\n" if cut > 0 else text


def run(argv: list[str], limit_s: float) -> Outcome:
    """Run `argv` without a shell and without stdin, for at most `limit_s` seconds.

    A missing tool ends with rc 127, one that may not be run with 126, one that overran its time with 124 and
    `timed out after <limit_s> s` on stderr; then its whole process group has been ended.
    """
    start = time.monotonic()
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as fault:
        rc = 127 if isinstance(fault, FileNotFoundError) else 126
        return Outcome(argv, rc, "", f"{argv[0]}: {fault.strerror}", time.monotonic() - start)
    streams = [_Stream(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None]
    try:
        rc, late = process.wait(limit_s), ""
    except subprocess.TimeoutExpired:
        _end_group(process)
        rc, late = 124, f"timed out after {limit_s:g} s"
    until_s = time.monotonic() + DRAIN_S
    stdout, stderr = (stream.text(until_s) for stream in streams)
    return Outcome(argv, rc, stdout, _joined(stderr, late), time.monotonic() - start)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except (ProcessLookupError, PermissionError):  # gone already, or sudo made it another user's
            return
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def _joined(stderr: str, late: str) -> str:
    return "\n".join(part for part in (stderr.rstrip("\n"), late) if part) if late else stderr
