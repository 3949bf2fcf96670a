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
        sys.stdout.write(f"{self._begin}INFO:     {text}\n")
        sys.stdout.flush()

    def bar(self, text: str, *, begins: bool = True, ends: bool = True) -> None:
        """Write one state of a tqdm bar as a container's log keeps it: after a carriage return, in a line of its own or not."""
        sys.stdout.write((self._begin if begins else "") + "\r" + text + ("\n" if ends else ""))
        sys.stdout.flush()

    def kernels(self, place: str, text: str) -> None:
        """Write a line in FlashInfer's form, whose time has a year."""
        now = time.strftime("%Y-%m-%d %H:%M:%S,000")
        sys.stdout.write(f"{self._begin}{now} - INFO - {place} - flashinfer.jit: {text}\n")
        sys.stdout.flush()

    @property
    def _begin(self) -> str:
        return f"({self._process} pid={os.getpid()}) "

    def _line(self, level: str, place: str, text: str) -> None:
        now = time.strftime("%m-%d %H:%M:%S")
        sys.stdout.write(f"{self._begin}{level} {now} [{place}] {text}\n")
        sys.stdout.flush()
