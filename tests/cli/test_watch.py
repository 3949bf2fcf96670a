"""A climb on a real terminal of 60 columns: what is shown, and what Ctrl-C promises and keeps."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from .conftest import Program

COLUMNS = 60
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7][0-9;]*m")
CTRL_C = b"\x03"

pytestmark = pytest.mark.cluster


class Terminal:
    """A verb on a terminal of its own, in the foreground of it as in a shell."""

    def __init__(self, program: Program, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        self.text = ""
        self.running = subprocess.Popen(
            program.argv(arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=program.environment() | {"TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": "40"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
        )
        os.close(theirs)

    def until(self, wanted: str, limit_s: float = 240) -> None:
        """Read what is shown until it holds that text."""
        end = time.monotonic() + limit_s
        while wanted not in _CONTROL.sub("", self.text):
            assert self._read(end), f"never shown: {wanted!r} in {self.text[-2000:]!r}"

    def press(self, keys: bytes) -> None:
        """Type something."""
        os.write(self.ours, keys)

    def close(self, limit_s: float = 240) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + limit_s
        while self._read(end):
            pass
        os.close(self.ours)
        return self.running.wait(timeout=30)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self.ours], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            read = os.read(self.ours, 65536)
        except OSError:
            return False
        self.text += read.decode("utf-8", "replace")
        return bool(read)


def test_the_first_ctrl_c_ends_a_climb_after_its_boot(practice: Program, tmp_path: Path) -> None:
    """It says so at once, the boot is measured and kept, the line serves, and the climb can go on."""
    events = tmp_path / "events.jsonl"
    shown = Terminal(
        practice, "tune", "--rehearsal", "--boots", "4", "--ladder", "quick", "--events", str(events)
    )
    shown.until("line A, climb of quick, simulated")
    shown.until("launch for")
    shown.press(CTRL_C)
    shown.until("stops after this boot")
    assert shown.close() == 4, shown.text[-2000:]
    assert "stopped before boot 2" in " ".join(_CONTROL.sub("", shown.text).split())
    assert not _COLOUR.search(shown.text)
    told = [json.loads(one) for one in events.read_text(encoding="utf-8").splitlines()]
    measured, ended = (one["outcome"] for one in told if one["event"] in {"booted", "ended"})
    assert measured in {"measured", "void"}, "its bench came to an end; on a busy machine it may be void"
    assert ended == "stopped"
    assert practice("status", "--rehearsal", "--json").document["state"] == "serving"
    assert max(map(len, lines(shown.text))) <= COLUMNS


@pytest.mark.full
def test_the_second_ctrl_c_takes_the_boot_down(practice: Program) -> None:
    """Exit 3, and no rank is left running."""
    shown = Terminal(practice, "tune", "--rehearsal", "--boots", "4", "--ladder", "quick")
    shown.until("launch for")
    shown.press(CTRL_C)
    shown.until("stops after this boot")
    shown.press(CTRL_C)
    assert shown.close() == 3, shown.text[-2000:]
    assert practice("status", "--rehearsal", "--json").document["state"] == "down"


def lines(text: str) -> list[str]:
    """Return the lines of the view as they stood on the terminal, without the ^C that it echoes into them."""
    plain = _CONTROL.sub("", text).replace("\r", "\n").replace("^C", "")
    return [one for one in plain.split("\n") if one.startswith(("line A", "boot 1 of", "  ", "ends about"))]
