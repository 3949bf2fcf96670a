"""The command line as a user calls it: the real program in its own process, with a state folder of the test's own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A suite that a shell started in the background ignores SIGINT, and so would all that it starts.
_HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
PROGRAM = (sys.executable, "-c", f"{_HEARS}; from sparkctl.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Ended:
    """How one call ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Program:
    """sparkctl with its state in one folder."""

    state: Path

    def __call__(self, *arguments: str, limit_s: float = 240) -> Ended:
        """Run to the end."""
        ran = subprocess.run(
            self.argv(arguments),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            env=self.environment(),
        )
        return Ended(ran.returncode, ran.stdout, ran.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start and leave running, in a process group of its own."""
        return subprocess.Popen(
            self.argv(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=self.environment(),
        )

    def argv(self, arguments: Sequence[str]) -> list[str]:
        """Return the whole command."""
        return [*PROGRAM, *arguments, "--state", str(self.state)]

    @staticmethod
    def environment() -> dict[str, str]:
        """Return an environment without colour and without an inventory of the user's."""
        return {key: value for key, value in os.environ.items() if key != "SPARKCTL_INVENTORY"} | {
            "NO_COLOR": "1"
        }
