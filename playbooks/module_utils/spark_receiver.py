"""The receiving end: pipes the stream of another node into `docker load`, and takes it up again where it broke.

`docker load` stays open over a break; only a stream whose beginning has become another one makes it start anew.
"""

import hashlib
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ansible.module_utils import spark_wire as wire
from ansible.module_utils.spark_image import ImageFault
from ansible.module_utils.spark_load import Load

RETRY_S = 0.5


@dataclass(frozen=True)
class Limits:
    """How long to wait, in seconds: for the sender to appear, for a sign of life, for docker on either side; and how often to try."""

    come_s: float
    silence_s: float
    docker_s: float
    most_breaks: int
    most_restarts: int


@dataclass
class Taken:
    """What a receiver has seen so far."""

    n_bytes: int = 0
    breaks: int = 0
    restarts: int = 0
    last: str = ""
    hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)


@dataclass
class Receiver:
    """Takes one image from one sender."""

    node: str
    own: str
    address: str
    port: int
    token: str
    load: Sequence[str]
    limits: Limits

    def take(self) -> Taken:
        """Load the image, and return what it took.

        Raises:
            ImageFault: the sender did not come, the stream broke too often or changed, or docker failed.

        """
        taken, load = Taken(), Load(self.load)
        try:
            while True:
                try:
                    if self._stream(taken, load):
                        break
                    load.kill()
                    load = Load(self.load)
                except (wire.Broken, OSError) as broken:
                    self._count(taken, str(broken) or type(broken).__name__)
            load.end(self.limits.docker_s)
        except ImageFault as fault:
            self.end(f"failed: {fault}")
            raise
        finally:
            load.kill()
        return taken

    def end(self, how: str, come_s: float = 0.0) -> None:
        """Tell the sender that this node does not come again; one that is not there within `come_s` need not hear it."""
        with suppress(OSError, wire.Broken, ImageFault), self._call(come_s) as call:
            self._ask(call, "end", 0, how)

    def _count(self, taken: Taken, why: str) -> None:
        taken.breaks, taken.last = taken.breaks + 1, why
        if taken.breaks > self.limits.most_breaks:
            raise ImageFault(
                f"the stream from {self.address} broke {taken.breaks} times, the last time after {taken.n_bytes} bytes: {why}",
                f"at most {self.limits.most_breaks} breaks",
                "see the fabric (sparkctl check) and whether docker save still runs on the sender; then run again",
            )
        time.sleep(RETRY_S)

    def _stream(self, taken: Taken, load: Load) -> bool:
        """Read one call; True at the stream's end, False when its beginning has become another and all starts anew."""
        with self._call(self.limits.come_s) as call:
            nonce = self._ask(call, "stream", taken.n_bytes, taken.hash.hexdigest())
            fed = time.monotonic()
            while True:
                frame = wire.take(call)
                if frame.kind == wire.DATA:
                    self._pass_on(frame, taken, load)
                    fed = time.monotonic()
                elif frame.kind == wire.ALIVE:
                    self._demand_life(fed)
                elif frame.kind == wire.END:
                    self._demand_whole(frame, taken, nonce)
                    wire.put_line(call, {"node": self.node, "verb": "whole"})
                    return True
                elif frame.kind == wire.REFUSED:
                    self._refused(frame, taken)
                    return False
                elif frame.kind == wire.FAILED:
                    raise wire.Broken(f"docker save failed on the sender: {frame.json().get('said')}")

    def _demand_life(self, fed: float) -> None:
        """Refuse a sender that is there and has had no byte from docker for too long."""
        if time.monotonic() - fed > self.limits.docker_s:
            raise ImageFault(
                f"docker save on the sender has written nothing for {self.limits.docker_s:g} s",
                "the image's bytes",
                "see what the docker daemon and the disk of the sender are doing, then run again",
            )

    def _pass_on(self, frame: wire.Frame, taken: Taken, load: Load) -> None:
        then = taken.hash.copy()
        then.update(frame.payload)
        if then.digest() != frame.digest:
            raise wire.Broken(
                f"bytes {taken.n_bytes} to {taken.n_bytes + len(frame.payload)} arrived damaged"
            )
        load.feed(frame.payload)
        taken.hash, taken.n_bytes = then, taken.n_bytes + len(frame.payload)

    def _demand_whole(self, frame: wire.Frame, taken: Taken, nonce: str) -> None:
        told = frame.json()
        found = (taken.n_bytes, taken.hash.hexdigest())
        if (told.get("bytes"), told.get("sha256")) != found or not wire.is_proven(
            self.token, told.get("proof"), nonce, *found
        ):
            raise wire.Broken(f"the end of the stream does not fit the {taken.n_bytes} bytes that came")

    def _refused(self, frame: wire.Frame, taken: Taken) -> None:
        if frame.json().get("why") != "prefix":
            raise ImageFault(
                f"the sender at {self.address} does not know this node's secret",
                "the sender of the same run",
                "another sync may be under way; wait for its end and run again",
            )
        taken.restarts += 1
        if taken.restarts > self.limits.most_restarts:
            raise ImageFault(
                f"the stream's beginning changed {taken.restarts} times while it was taken up again",
                f"the same bytes of docker save, or a stream without a break, within {self.limits.most_restarts} new starts",
                "see why the stream breaks: sparkctl check judges the fabric",
            )
        taken.n_bytes, taken.hash = 0, hashlib.sha256()

    def _call(self, come_s: float) -> socket.socket:
        """Call the sender, which may come up a little later than this node.

        Raises:
            ImageFault: nobody answered within `come_s`.

        """
        until = time.monotonic() + come_s
        while True:
            left = max(0.1, until - time.monotonic())
            try:
                call = socket.create_connection(
                    (self.address, self.port),
                    timeout=min(left, self.limits.silence_s),
                    source_address=(self.own, 0),
                )
            except OSError as fault:
                if time.monotonic() >= until:
                    raise self._absent(fault, come_s) from fault
                time.sleep(min(RETRY_S, left))
                continue
            call.settimeout(self.limits.silence_s)
            return call

    def _absent(self, fault: OSError, come_s: float) -> ImageFault:
        place, wanted = f"{self.address} port {self.port}", "the sender's answer"
        if isinstance(fault, ConnectionRefusedError):
            return ImageFault(
                f"nobody listens at {place} for {come_s:g} s: connection refused",
                wanted,
                "the sender never came up, or ended: what it said stands beside",
            )
        if isinstance(fault, TimeoutError):
            return ImageFault(
                f"{place} gave no answer for {come_s:g} s: timed out",
                wanted,
                "see the fabric (sparkctl check) and any firewall between the nodes; --over management takes the other network",
            )
        return ImageFault(
            f"{place} cannot be reached from {self.own}: {fault.strerror or fault}",
            wanted,
            "compare the inventory's fabric addresses with `ip addr` on the node; --over management takes the other network",
        )

    def _ask(self, call: socket.socket, verb: str, offset: int, prefix: str) -> str:
        nonce = str(wire.take_line(call).get("nonce"))
        words = (nonce, self.node, verb, offset, prefix)
        asked = {"node": self.node, "verb": verb, "offset": offset, "prefix": prefix}
        wire.put_line(call, {**asked, "proof": wire.proof(self.token, *words)})
        return nonce
