"""The command line as a user calls it: the real program in its own process, with a state folder of the test's own."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A suite that a shell started in the background ignores SIGINT, and so would all that it starts.
_HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
PROGRAM = (sys.executable, "-c", f"{_HEARS}; from sparkctl.cli import main; main()")

# Forks a process for each call to the end, with the verbs loaded: starting Python with them takes as long as most verbs' work.
_LOADED = multiprocessing.get_context("forkserver")
_LOADED.set_forkserver_preload(
    [
        "tests.program",
        *(
            f"sparkctl.cli.{verb}"
            for verb in ("bench", "boot", "check", "down", "images", "ledger", "quality")
        ),
        *(f"sparkctl.cli.{verb}" for verb in ("rehearse", "report", "status", "tune")),
        *("ansible_runner", "fabric"),
    ]
)


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
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "out", Path(folder) / "err"
            given = self.given(arguments)
            running = _LOADED.Process(target=_become, args=(given, self.environment(), str(Path.cwd()), told))
            running.start()
            running.join(limit_s)
            if running.exitcode is None:
                running.kill()
                raise subprocess.TimeoutExpired(given, limit_s)
            return Ended(running.exitcode, *(path.read_text(encoding="utf-8") for path in told))

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
        return [*PROGRAM, *self.given(arguments)]

    def given(self, arguments: Sequence[str]) -> list[str]:
        """Return what is typed behind the program's name."""
        return [*arguments, "--state", str(self.state)]

    @staticmethod
    def environment() -> dict[str, str]:
        """Return an environment without colour and without an inventory of the user's."""
        return {key: value for key, value in os.environ.items() if key != "SPARKCTL_INVENTORY"} | {
            "NO_COLOR": "1"
        }


def _become(
    arguments: Sequence[str], environment: Mapping[str, str], folder: str, told: tuple[Path, Path]
) -> None:
    """Run one call in this process, with its words in two files."""
    from sparkctl.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path in enumerate(told, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    sys.argv = ["sparkctl", *arguments]
    main()
