"""The words of a stream between two nodes: a greeting that proves a secret, and frames that prove the bytes.

The sender greets with a number used once; the caller answers with what it wants and an HMAC over both, so the token never crosses the
wire. Then frames: kind, length, and the SHA-256 of the whole stream up to and with this frame. A receiver thus knows of every byte
that it is the right one before it passes it on, and a resumed stream is proven to be the old one by its prefix.
"""

import hashlib
import hmac
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

HEAD = struct.Struct("!cI32s")
DATA, ALIVE, REFUSED, FAILED, END = b"D", b"A", b"R", b"F", b"E"
LONGEST = 1 << 18  # bytes of a frame: what a break costs at most
LINE = 4096  # bytes of a greeting or a request


class Broken(Exception):
    """The stream ended where it should not, or is not what was sent; it may be taken up again."""


@dataclass(frozen=True)
class Frame:
    """One frame; `digest` is the running SHA-256 of the stream with this frame's data."""

    kind: bytes
    payload: bytes
    digest: bytes

    def json(self) -> dict[str, Any]:
        """Return the payload of a frame that carries words."""
        try:
            return dict(json.loads(self.payload))
        except ValueError as fault:
            raise Broken("a frame of words holds none") from fault


def proof(token: str, *said: object) -> str:
    """Return what only who knows the token can say of these words."""
    text = "\0".join(map(str, said))
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_proven(token: str, given: object, *said: object) -> bool:
    """Whether a proof is that of these words."""
    return isinstance(given, str) and hmac.compare_digest(given.encode(), proof(token, *said).encode())


def words(told: dict[str, Any]) -> bytes:
    """Return words as a frame carries them."""
    return json.dumps(told).encode()


def put_line(wire: socket.socket, told: dict[str, Any]) -> None:
    """Send one line of JSON."""
    wire.sendall(words(told) + b"\n")


def take_line(wire: socket.socket) -> dict[str, Any]:
    """Return one line of JSON.

    Raises:
        Broken: the other side hung up, or sent something else.

    """
    text = bytearray()
    while not text.endswith(b"\n"):
        letter = wire.recv(1)  # no further, since frames follow
        if not letter or len(text) >= LINE:
            raise Broken("the other side hung up before it had said what it wants")
        text += letter
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as fault:
        raise Broken("the other side speaks another language") from fault


def put(wire: socket.socket, kind: bytes, payload: bytes = b"", digest: bytes = bytes(32)) -> None:
    """Send one frame."""
    wire.sendall(HEAD.pack(kind, len(payload), digest) + payload)


def take(wire: socket.socket) -> Frame:
    """Return the next frame.

    Raises:
        Broken: the stream ends in the midst of it, or it is longer than any frame of ours.

    """
    kind, length, digest = HEAD.unpack(_whole(wire, HEAD.size))
    if length > LONGEST:
        raise Broken(f"a frame claims {length} bytes")
    return Frame(kind, _whole(wire, length), digest)


def _whole(wire: socket.socket, size: int) -> bytes:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        got = wire.recv_into(view[at:])
        if got == 0:
            raise Broken("the connection ended in the midst of the stream")
        at += got
    return bytes(found)
