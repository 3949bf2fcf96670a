"""The sending end: serves `docker save IMAGE` to the nodes that were named, as often as each has to ask.

Every call gets a save of its own. A call that wants the stream from byte N first has its prefix compared: docker writes the same bytes
again in practice, and no promise of it is known, so what differs is refused and the receiver begins anew.
"""

import fcntl
import hashlib
import os
import secrets
import select
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ansible.module_utils import spark_wire as wire
from ansible.module_utils.spark_image import ImageFault

GREET_S = 10.0  # for a caller to say what it wants; ours call at once
ALIVE_S = 3.0  # docker may stage an export for minutes before its first byte
SET_PIPE_SIZE = 1031  # linux/fcntl.h
PIPE = 1 << 20  # bytes; what an unprivileged login may ask for


@dataclass(frozen=True)
class Limits:
    """How long to wait, in seconds: for the first and the next caller, and for a caller that takes nothing."""

    come_s: float
    stall_s: float


@dataclass
class Sender:
    """Serves one image to `receivers` at one address and port; `serve` comes back when each has ended or none comes any more."""

    save: Sequence[str]
    address: str
    port: int
    token: str
    receivers: frozenset[str]
    limits: Limits
    ended: dict[str, str] = field(default_factory=dict)
    strangers: int = 0
    _busy: int = 0
    _seen: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self) -> None:
        """Serve until every receiver has ended, or nobody has called for `come_s`.

        Raises:
            ImageFault: the address or the port cannot be had.

        """
        with self._door() as door:
            self._seen = time.monotonic()
            door.settimeout(0.2)
            calls: list[threading.Thread] = []
            while not self._is_over():
                try:
                    call, _ = door.accept()
                except TimeoutError:
                    continue
                self._count(1)
                thread = threading.Thread(target=self._answer, args=(call,), daemon=True)
                thread.start()
                calls.append(thread)
            for thread in calls:
                thread.join(1.0)  # who is left is no receiver of ours

    def _door(self) -> socket.socket:
        try:
            return socket.create_server((self.address, self.port), backlog=16)
        except OSError as fault:
            raise ImageFault(
                f"{self.address} port {self.port} cannot be listened on: {fault.strerror}",
                "the node's own address, as the inventory has it, and a free port",
                "compare the inventory's addresses with `ip addr` on the node; run again for another port, or name one with --port",
            ) from fault

    def _is_over(self) -> bool:
        if self.receivers <= self.ended.keys():
            return True
        return self._busy == 0 and time.monotonic() - self._seen > self.limits.come_s

    def _answer(self, call: socket.socket) -> None:
        try:
            with call:
                call.settimeout(GREET_S)
                self._converse(call)
        except (OSError, wire.Broken):
            pass  # the receiver asks again, or tells its own user why not
        finally:
            self._count(-1)

    def _count(self, calls: int) -> None:
        with self._lock:
            self._seen, self._busy = time.monotonic(), self._busy + calls

    def _converse(self, call: socket.socket) -> None:
        nonce = secrets.token_hex(16)
        wire.put_line(call, {"nonce": nonce})
        asked = wire.take_line(call)
        node, verb = asked.get("node"), asked.get("verb")
        words = (nonce, node, verb, asked.get("offset"), asked.get("prefix"))
        if node not in self.receivers or not wire.is_proven(self.token, asked.get("proof"), *words):
            self.strangers += 1
            wire.put(call, wire.REFUSED, wire.words({"why": "stranger"}))
        elif verb == "end":
            self.ended[str(node)] = str(asked.get("prefix"))
        else:
            call.settimeout(self.limits.stall_s)
            self._stream(call, asked, nonce)

    def _stream(self, call: socket.socket, asked: Mapping[str, Any], nonce: str) -> None:
        offset, prefix = int(asked["offset"]), str(asked["prefix"])
        process = subprocess.Popen(
            self.save, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        pump = _Pump(process, call)
        try:
            whole = pump.run(offset, prefix)
            if whole is not None:
                sealed = wire.proof(self.token, nonce, whole.n_bytes, whole.sha256)
                told = {"bytes": whole.n_bytes, "sha256": whole.sha256, "proof": sealed}
                wire.put(call, wire.END, wire.words(told))
                wire.take_line(call)  # stays until the receiver has read the end
        finally:
            pump.close()


@dataclass(frozen=True)
class Whole:
    """A stream that was sent to its end."""

    n_bytes: int
    sha256: str


class _Pump:
    """Carries what a save writes into frames."""

    def __init__(self, process: "subprocess.Popen[bytes]", call: socket.socket) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for as a pipe
        self._process, self._call, self._pipe = process, call, process.stdout.fileno()
        self._hash, self._n_bytes = hashlib.sha256(), 0
        self._shown = time.monotonic()
        self._told = bytearray()
        with suppress(OSError):  # 64 KiB otherwise
            fcntl.fcntl(self._pipe, SET_PIPE_SIZE, PIPE)
        self._words = threading.Thread(target=self._listen, daemon=True)
        self._words.start()

    def run(self, offset: int, prefix: str) -> Whole | None:
        """Skip and compare the first `offset` bytes, send the rest; None when it was refused or the save failed."""
        while self._n_bytes < offset:
            if not (chunk := self._read(offset - self._n_bytes)):
                break
            self._count(chunk)
            self._show_life()
        if self._n_bytes < offset or self._hash.hexdigest() != prefix:
            if self._n_bytes < offset and self._has_failed():
                return None
            wire.put(self._call, wire.REFUSED, wire.words({"why": "prefix"}))
            return None
        while chunk := self._read(wire.LONGEST):
            self._count(chunk)
            wire.put(self._call, wire.DATA, chunk, self._hash.digest())
        return None if self._has_failed() else Whole(self._n_bytes, self._hash.hexdigest())

    def close(self) -> None:
        """End the save, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._words.join(1.0)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    def _read(self, most: int) -> bytes:
        """Return what the save wrote, empty at its end; says meanwhile that we are still here."""
        while not select.select([self._pipe], [], [], ALIVE_S)[0]:
            self._show_life()
        return os.read(self._pipe, min(most, wire.LONGEST))

    def _show_life(self) -> None:
        if time.monotonic() - self._shown >= ALIVE_S:
            wire.put(self._call, wire.ALIVE)
            self._shown = time.monotonic()

    def _count(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self._n_bytes += len(chunk)

    def _has_failed(self) -> bool:
        """Whether the save ended with an error; its words go to the receiver."""
        rc = self._process.wait()
        self._words.join(1.0)
        if rc == 0:
            return False
        said = self._told.decode(errors="replace").strip() or f"no word, rc {rc}"
        wire.put(self._call, wire.FAILED, wire.words({"rc": rc, "said": said[-2000:]}))
        return True

    def _listen(self) -> None:
        if self._process.stderr is None:
            return
        with suppress(ValueError, OSError):
            while chunk := os.read(self._process.stderr.fileno(), 4096):
                self._told += chunk[: wire.LINE]
