"""The relay: what it passes on, how late, and how a connection ends."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from rehearsal.hosts import Relay, Weather


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    """A server on loopback that sends back what it gets; its port."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            while True:
                try:
                    call, _ = door.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(call,), daemon=True).start()

        def answer(call: socket.socket) -> None:
            with call:
                while chunk := call.recv(65536):
                    call.sendall(chunk)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield door.getsockname()[1]
        door.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def call(relay: Relay) -> socket.socket:
    """Call through the relay."""
    return socket.create_connection(("127.0.0.1", relay.port), timeout=5)


def test_bytes_come_back_whole(echo: int) -> None:
    """Without weather a relay is not noticed."""
    sent = bytes(range(256)) * 4000
    with Relay("127.0.0.1", echo, Weather()) as relay, call(relay) as line:
        threading.Thread(target=line.sendall, args=(sent,)).start()
        got = b""
        while len(got) < len(sent):
            got += line.recv(65536)
    assert got == sent


def test_both_delays_are_paid_once(echo: int) -> None:
    """There and back cost their sum, and twenty words on their way together do not pay it twenty times, which is 6 s."""
    with Relay("127.0.0.1", echo, Weather(there_s=0.15, back_s=0.15)) as relay, call(relay) as line:
        start = time.monotonic()
        for _ in range(20):
            line.sendall(b"word")
            time.sleep(0.01)
        got = b""
        while len(got) < 80:
            got += line.recv(16)
        assert 0.3 <= time.monotonic() - start < 3
    assert got == b"word" * 20


def test_a_cut_ends_the_connection(echo: int) -> None:
    """After so many bytes of answers the caller's connection is gone."""
    with Relay("127.0.0.1", echo, Weather(cut_after=4)) as relay, call(relay) as line:
        line.sendall(b"four")
        assert line.recv(16) == b"four"
        line.sendall(b"more")
        try:
            ended = line.recv(16)
        except ConnectionError:
            ended = b""
        assert ended == b""


def test_one_byte_arrives_turned_round(echo: int) -> None:
    """The damage is one byte at its place, and the connection goes on."""
    sent = bytes(range(256)) * 1000
    with Relay("127.0.0.1", echo, Weather(damaged_at=200_000)) as relay, call(relay) as line:
        threading.Thread(target=line.sendall, args=(sent,)).start()
        got = b""
        while len(got) < len(sent):
            got += line.recv(65536)
    assert [place for place, (one, two) in enumerate(zip(sent, got, strict=True)) if one != two] == [200_000]


def test_silence_keeps_the_connection(echo: int) -> None:
    """After so many bytes nothing comes, and nothing tells the caller."""
    with Relay("127.0.0.1", echo, Weather(silent_after=4)) as relay, call(relay) as line:
        line.sendall(b"four")
        assert line.recv(16) == b"four"
        line.settimeout(0.1)
        line.sendall(b"more")
        with pytest.raises(TimeoutError):
            line.recv(16)


def test_nobody_behind_the_relay(echo: int) -> None:
    """A host that refuses ends the call at once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert port != echo
    with Relay("127.0.0.1", port, Weather()) as relay, call(relay) as line:
        try:
            ended = line.recv(16)
        except ConnectionError:
            ended = b""
        assert ended == b""
