"""The stream of an image between two ends: real sockets, real processes as `docker save` and `docker load`, real breaks."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from ansible.module_utils import spark_wire as wire
from ansible.module_utils.spark_image import ImageFault
from ansible.module_utils.spark_receiver import Limits, Receiver
from ansible.module_utils.spark_sender import Limits as Patience
from ansible.module_utils.spark_sender import Sender

from rehearsal.hosts import Relay, Weather

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HERE = "127.0.0.1"
TOKEN = "5" * 64
SIZE = 3_000_000
LIMITS = Limits(come_s=5, silence_s=5, docker_s=10, most_breaks=20, most_restarts=2)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between two calls."""
    monkeypatch.setattr("ansible.module_utils.spark_receiver.RETRY_S", 0.05)


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as trial:
        trial.bind((HERE, 0))
        return int(trial.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Ends:
    """A sender whose `docker save` prints a file, and where its receiver's `docker load` writes what it gets."""

    image: Path
    got: Path
    sender: Sender

    def receiver(
        self, *, port: int = 0, limits: Limits = LIMITS, load: Sequence[str] = (), token: str = TOKEN
    ) -> Receiver:
        """Make the receiving end; another port is a relay's."""
        return Receiver(
            node="b",
            own=HERE,
            address=HERE,
            port=port or self.sender.port,
            token=token,
            load=load or ("sh", "-c", f"cat > {self.got}"),
            limits=limits,
        )

    @contextmanager
    def serving(self, save: Sequence[str] = ()) -> Iterator[Sender]:
        """Serve for the block, and see that the sender ends by itself."""
        sender = replace(self.sender, save=save or self.sender.save)
        faults: list[BaseException] = []

        def serve() -> None:
            try:
                sender.serve()
            except ImageFault as fault:
                faults.append(fault)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield sender
        finally:
            thread.join(20)
        assert not thread.is_alive(), "the sender does not end"
        assert not faults, faults


def noise(seed: int) -> bytes:
    """Return the bytes of an image: no two places alike, the same for a seed."""
    return hashlib.shake_256(bytes([seed])).digest(SIZE)


@pytest.fixture
def ends(tmp_path: Path) -> Ends:
    """Two ends and an image of three megabytes."""
    image = tmp_path / "image.tar"
    image.write_bytes(noise(7))
    sender = Sender(
        save=("cat", str(image)),
        address=HERE,
        port=free_port(),
        token=TOKEN,
        receivers=frozenset({"b"}),
        limits=Patience(come_s=2, stall_s=5),
    )
    return Ends(image, tmp_path / "got", sender)


def test_a_stream_arrives_whole(ends: Ends) -> None:
    """Every byte reaches docker load, and both ends have the same SHA-256."""
    with ends.serving() as sender:
        receiver = ends.receiver()
        taken = receiver.take()
        receiver.end("took it")
    assert ends.got.read_bytes() == ends.image.read_bytes()
    assert taken.hash.hexdigest() == hashlib.sha256(ends.image.read_bytes()).hexdigest()
    assert (taken.n_bytes, taken.breaks, taken.restarts) == (SIZE, 0, 0)
    assert sender.ended == {"b": "took it"}


@pytest.mark.parametrize(
    ("weather", "why"),
    [
        (Weather(cut_after=1_000_000), "in the midst of the stream|reset"),
        (Weather(damaged_at=1_300_000), "arrived damaged"),
        (Weather(silent_after=1_600_000), "timed out"),
    ],
    ids=["cut", "damaged", "silent"],
)
def test_a_break_is_taken_up_where_it_was(ends: Ends, weather: Weather, why: str) -> None:
    """Whatever happens to a connection, docker load stays open and gets each byte once, none of them a wrong one."""
    loads = ends.got.with_name("loads")
    load = ("sh", "-c", f"echo load >> {loads}; cat > {ends.got}")
    with ends.serving(), Relay(HERE, ends.sender.port, weather) as relay:
        receiver = ends.receiver(port=relay.port, load=load, limits=replace(LIMITS, silence_s=1.0))
        taken = receiver.take()
        ends.receiver().end("took it")
    assert ends.got.read_bytes() == ends.image.read_bytes()
    assert 1 <= taken.breaks <= 10
    assert any(word in taken.last for word in why.split("|"))
    assert loads.read_text().split() == ["load"]


def test_a_beginning_that_changed_starts_anew(ends: Ends) -> None:
    """A second save of other bytes is refused by its prefix; docker load begins anew and gets the second one alone."""
    other = ends.image.with_name("other.tar")
    other.write_bytes(noise(8))
    save = (
        "sh",
        "-c",
        f"if mkdir {ends.got}.once 2>/dev/null; then head -c 700000 {ends.image}; exit 3; fi; cat {other}",
    )
    with ends.serving(save):
        taken = ends.receiver().take()
        ends.receiver().end("took it")
    assert ends.got.read_bytes() == other.read_bytes()
    assert (taken.breaks, taken.restarts) == (1, 1)


def test_a_beginning_that_always_changes_is_given_up(ends: Ends) -> None:
    """A save that never says the same twice and never comes to its end is named, with what was wanted."""
    save = ("sh", "-c", "date +%N; head -c 500000 /dev/zero; exit 3")
    with ends.serving(save), pytest.raises(ImageFault) as fault:
        ends.receiver().take()
    assert "the stream's beginning changed 3 times" in str(fault.value)
    assert fault.value.told["hint"]


def test_a_stream_that_breaks_too_often_is_given_up(ends: Ends) -> None:
    """A connection that never carries the greeting further ends with the count, and the sender hears of it."""
    limits = replace(LIMITS, most_breaks=2)
    with ends.serving() as sender, Relay(HERE, ends.sender.port, Weather(cut_after=60)) as relay:
        receiver = ends.receiver(port=relay.port, limits=limits)
        with pytest.raises(ImageFault) as fault:
            receiver.take()
        ends.receiver().end("failed")
    assert "broke 3 times" in str(fault.value)
    assert "at most 2 breaks" in fault.value.told["msg"]
    assert sender.ended["b"].startswith("failed")


def test_docker_save_s_own_words_reach_the_receiver(ends: Ends) -> None:
    """A save that fails is told by the end that wanted the image."""
    save = ("sh", "-c", "echo 'Error response from daemon: no space left on device' >&2; exit 1")
    with ends.serving(save), pytest.raises(ImageFault) as fault:
        ends.receiver(limits=replace(LIMITS, most_breaks=1)).take()
    assert "no space left on device" in str(fault.value)


def test_docker_load_s_own_words_are_the_fault(ends: Ends) -> None:
    """A load that dies in the midst of the stream ends it, and the sender ends too."""
    load = ("sh", "-c", "head -c 100000 >/dev/null; echo 'write /blob: no space left on device'; exit 1")
    with ends.serving() as sender, pytest.raises(ImageFault) as fault:
        ends.receiver(load=load).take()
    assert fault.value.told["measured"] == "docker load ended with rc 1: write /blob: no space left on device"
    assert sender.ended["b"].startswith("failed: docker load ended")


def test_padding_after_an_archive_s_end_is_no_fault(ends: Ends) -> None:
    """A load that has all it needs and ends well may leave the rest unread."""
    with ends.serving():
        taken = ends.receiver(load=("sh", "-c", "head -c 2000000 >/dev/null")).take()
        ends.receiver().end("took it")
    assert taken.n_bytes == SIZE


def test_a_stranger_gets_nothing(ends: Ends) -> None:
    """Who does not know the secret is refused without a byte, and counted."""
    with ends.serving() as sender:
        with pytest.raises(ImageFault, match="does not know this node's secret"):
            ends.receiver(token="6" * 64).take()
        ends.receiver().end("gave up")
    assert sender.strangers >= 1
    assert ends.got.read_bytes() == b""


def test_the_secret_never_crosses_the_wire() -> None:
    """Whoever listens to a whole conversation has seen neither the token nor anything to say again."""
    first, second = socket.socketpair()
    with first, second:
        wire.put_line(first, {"proof": wire.proof(TOKEN, "nonce", "b")})
        said = wire.take_line(second)
    assert TOKEN not in str(said)
    assert wire.is_proven(TOKEN, said["proof"], "nonce", "b")
    assert not wire.is_proven(TOKEN, said["proof"], "another nonce", "b")


def test_nobody_listens(ends: Ends) -> None:
    """A sender that never came up is told apart from one that does not answer."""
    with pytest.raises(ImageFault, match="connection refused"):
        ends.receiver(limits=replace(LIMITS, come_s=0.5)).take()


def test_nobody_answers(ends: Ends) -> None:
    """A network that swallows packets ends in a time-out that names address, port and time."""
    with socket.socket() as deaf, socket.socket() as first, socket.socket() as second:
        deaf.bind((HERE, 0))
        deaf.listen(0)
        for filler in (first, second):  # the queue holds one more than it was told
            filler.settimeout(0)
            filler.connect_ex(deaf.getsockname())
        port = int(deaf.getsockname()[1])
        with pytest.raises(ImageFault, match=rf"{HERE} port {port} gave no answer for 1.5 s: timed out"):
            ends.receiver(port=port, limits=replace(LIMITS, come_s=1.5)).take()


def test_a_taken_port_is_named(ends: Ends) -> None:
    """The sender says which port it could not have, and what to do."""
    with socket.create_server((HERE, 0)) as other:
        sender = replace(ends.sender, port=other.getsockname()[1])
        with pytest.raises(ImageFault, match="cannot be listened on: Address already in use") as fault:
            sender.serve()
    assert "--port" in str(fault.value.told["hint"])


def test_an_address_of_another_node_is_named(ends: Ends) -> None:
    """The sender listens at its own address only, and says when it is not its own."""
    sender = replace(ends.sender, address="192.0.2.1")
    with pytest.raises(ImageFault, match=r"192\.0\.2\.1 port"):
        sender.serve()


def test_a_sender_that_nobody_calls_ends(ends: Ends) -> None:
    """A receiver that never comes does not keep the sender."""
    with ends.serving() as sender:
        pass
    assert sender.ended == {}


def test_a_caller_that_says_nothing_keeps_nobody(ends: Ends) -> None:
    """A stranger that only holds the line open costs the receivers nothing, and the sender ends with the last of them."""
    begun = time.monotonic()
    with contextlib.ExitStack() as kept, ends.serving():
        ends.receiver().take()
        kept.enter_context(socket.create_connection((HERE, ends.sender.port), timeout=3))
        ends.receiver().end("took it")
    assert time.monotonic() - begun < 8


def test_a_slow_save_is_waited_for(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker may stage an export before its first byte: signs of life keep the connection, longer than any silence may be."""
    monkeypatch.setattr("ansible.module_utils.spark_sender.ALIVE_S", 0.1)
    save = ("sh", "-c", f"sleep 1.5; cat {ends.image}")
    with ends.serving(save):
        taken = ends.receiver(limits=replace(LIMITS, silence_s=0.5)).take()
        ends.receiver().end("took it")
    assert (taken.n_bytes, taken.breaks) == (SIZE, 0)


def test_a_save_that_never_begins_is_given_up(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign of life is no byte: after docker's own limit the receiver says what it waits for."""
    monkeypatch.setattr("ansible.module_utils.spark_sender.ALIVE_S", 0.1)
    with ends.serving(("sleep", "30")), pytest.raises(ImageFault, match=r"has written nothing for 0\.5 s"):
        ends.receiver(limits=replace(LIMITS, docker_s=0.5)).take()


def test_many_receivers_are_served_at_once(ends: Ends, tmp_path: Path) -> None:
    """Three nodes take the same image at the same time, each from a save of its own."""
    names = ("b", "c", "d")
    sender = replace(ends.sender, receivers=frozenset(names))
    thread = threading.Thread(target=sender.serve)
    thread.start()

    def take(name: str) -> None:
        load = ("sh", "-c", f"cat > {tmp_path / name}")
        receiver = replace(ends.receiver(load=load), node=name)
        receiver.take()
        receiver.end("took it")

    takers = [threading.Thread(target=take, args=(name,)) for name in names]
    for one in takers:
        one.start()
    for one in (*takers, thread):
        one.join(20)
    assert sender.ended == dict.fromkeys(names, "took it")
    assert {(tmp_path / name).read_bytes() for name in names} == {ends.image.read_bytes()}


def hung_up(port: int, said: bytes) -> bytes:
    """Say something to a sender that is coming up, and return what it answered until it hung up."""
    until = time.monotonic() + 5
    while True:
        try:
            call = socket.create_connection((HERE, port), timeout=3)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < until
            time.sleep(0.05)
    answer = b""
    with call, contextlib.suppress(OSError):
        call.sendall(said)
        call.shutdown(socket.SHUT_WR)
        while chunk := call.recv(4096):
            answer += chunk
    return answer


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n",
        b"[]\n",
        b'{"node": "b"}\n',
        b'{"node": "b", "verb": "stream", "offset": "x"}\n',
        b"x" * 5000,
    ],
)
def test_any_other_caller_leaves_the_sender_as_it_was(ends: Ends, said: bytes) -> None:
    """Whatever a stranger says, it is hung up on, and the receiver is served after it."""
    with ends.serving():
        assert b"proof" not in hung_up(ends.sender.port, said)
        ends.receiver().take()
        ends.receiver().end("took it")
    assert ends.got.read_bytes() == ends.image.read_bytes()
