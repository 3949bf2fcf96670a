"""A rank's log, worded as vLLM 0.33 words it; stdout of the container."""

import os
import sys
import time


class Journal:
    """Writes the lines of one of vLLM's processes."""

    def __init__(self, process: str) -> None:
        self._process = process

    def info(self, place: str, text: str) -> None:
        """Write an INFO line; `place` is `file.py:line`."""
        self._line("INFO", place, text)

    def warning(self, place: str, text: str) -> None:
        """Write a WARNING line."""
        self._line("WARNING", place, text)

    def error(self, place: str, text: str) -> None:
        """Write an ERROR line."""
        self._line("ERROR", place, text)

    def plain(self, text: str) -> None:
        """Write a line in uvicorn's form, which has neither time nor place."""
        sys.stdout.write(f"({self._process} pid={os.getpid()}) INFO:     {text}\n")
        sys.stdout.flush()

    def _line(self, level: str, place: str, text: str) -> None:
        now = time.strftime("%m-%d %H:%M:%S")
        sys.stdout.write(f"({self._process} pid={os.getpid()}) {level} {now} [{place}] {text}\n")
        sys.stdout.flush()
