"""A running `docker load`: fed piece by piece, its words kept, its end judged."""

import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress

from ansible.module_utils.spark_image import ImageFault

KEPT = 4096  # bytes of a line of its words


class Load:
    """A running `docker load`; its words are kept."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._has_all = False
        self._told = bytearray()
        self._words = threading.Thread(target=self._listen, daemon=True)
        self._words.start()

    def feed(self, chunk: bytes) -> None:
        """Pass bytes on.

        Raises:
            ImageFault: docker load has ended.

        """
        assert self._process.stdin is not None  # noqa: S101 - it was asked for as a pipe
        if self._has_all:
            return
        try:
            self._process.stdin.write(chunk)
        except BrokenPipeError as fault:
            rc = self._process.wait()
            self._has_all = rc == 0  # what follows an archive's end is padding
            if rc != 0:
                raise self._failed(rc) from fault

    def end(self, limit_s: float) -> str:
        """Close its input, wait for its end and return its words.

        Raises:
            ImageFault: it failed, or did not end in time.

        """
        with suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            rc = self._process.wait(limit_s)
        except subprocess.TimeoutExpired as late:
            raise ImageFault(
                f"docker load had not ended {limit_s:g} s after the last byte",
                "an image that is unpacked",
                "see what the disk and the docker daemon of the node are doing, then run again",
            ) from late
        if rc != 0:
            raise self._failed(rc)
        self._words.join(1.0)
        return self._told.decode(errors="replace").strip()

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.close()
        self._words.join(1.0)
        if self._process.stdout:
            self._process.stdout.close()

    def _failed(self, rc: int) -> ImageFault:
        self._words.join(1.0)
        said = self._told.decode(errors="replace").strip()
        return ImageFault(
            f"docker load ended with rc {rc}: {said or 'no word'}",
            "an image that is unpacked",
            "docker's own words name the cause; what it had unpacked so far is given up",
            said=said,
        )

    def _listen(self) -> None:
        if self._process.stdout is None:
            return
        with suppress(ValueError, OSError):
            for line in self._process.stdout:
                self._told += line[:KEPT]
