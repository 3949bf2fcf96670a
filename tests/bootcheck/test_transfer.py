"""The transfer for real: the script as the nodes run it, several of them at once on this machine's loopback."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bootcheck.facts import Record
from bootcheck.probes import collective
from bootcheck.probes.probe import MEET_S
from bootcheck.probes.table import find
from bootcheck.probes.transfer import MARKER, Transfers, parse_transfers, transfer_argv
from sparkctl.line import Line, Node, Rail

SHORT = {"bursts": 2, "burst_s": 0.05, "most_bytes": 64 * 1024**2, "stall_s": 3, "limit_s": 15}


def line(addresses: tuple[tuple[str, ...], ...], master_port: int = 29501) -> Line:
    """Return a line of nodes with these fabric addresses."""
    nodes = tuple(
        Node(
            name=f"n{rank}",
            rank=rank,
            host="",
            port=22,
            user=None,
            key_file=None,
            rails=tuple(Rail(interface=f"if{place}", address=one, hca="") for place, one in enumerate(own)),
        )
        for rank, own in enumerate(addresses)
    )
    return Line(
        name="A",
        nodes=nodes,
        recipe=None,
        api_host="",
        api_port=8000,
        master_port=master_port,
        floors={},
        known_hosts=None,
        source="",
    )


def free_below() -> int:
    """Return a port below two that nothing listens on at these addresses."""
    while True:
        with ExitStack() as doors:
            first = doors.enter_context(socket.create_server(("127.0.81.1", 0)))
            port: int = first.getsockname()[1]
            try:
                doors.enter_context(socket.create_server(("127.0.81.11", port + 1)))
            except OSError:
                continue
            return port - 1


def plan_of(argv: tuple[str, ...]) -> dict[str, Any]:
    """Return what a node is asked to do."""
    plan: dict[str, Any] = json.loads(argv[-1])
    return plan


def start(argv: tuple[str, ...], **changed: object) -> subprocess.Popen[str]:
    """Start a node's command with a plan that is short enough for a test."""
    words = [sys.executable, "-S", "-E", *argv[1:-1], json.dumps(plan_of(argv) | SHORT | changed)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> Transfers:
    """Read what a node said at its end."""
    stdout, stderr = process.communicate(timeout=20)
    record = Record(
        probe="transfer", argv=(), rc=process.returncode, stdout=stdout, stderr=stderr, seconds=0.0
    )
    found = parse_transfers(record)
    assert isinstance(found, Transfers), (found, stderr)
    assert stderr == ""
    return found


def test_three_nodes_send_around_on_both_rails() -> None:
    """Each rail carries some bytes to the next node, all of them confirmed, and every node ends by itself."""
    three = line(tuple((f"127.0.81.{n}", f"127.0.81.{n + 10}") for n in (1, 2, 3)), free_below())
    running = [start(transfer_argv(three, node), wait_s=5) for node in three.nodes]
    rows = [row for process in running for row in end(process).rails]
    assert [(row.address, row.peer) for row in rows[:2]] == [
        ("127.0.81.1", "127.0.81.2"),
        ("127.0.81.11", "127.0.81.12"),
    ]
    assert rows[-1].peer == "127.0.81.11"
    for row in rows:
        assert row.error == ""
        assert row.gbit_s is not None
        assert row.gbit_s > 0.01
        assert 0 < row.sent <= SHORT["most_bytes"]


def test_a_peer_that_does_not_come_is_named() -> None:
    """Nothing is sent, nothing is claimed, and the wait ends in time."""
    two = line((("127.0.81.1",), ("127.0.81.2",)), free_below())
    (row,) = end(start(transfer_argv(two, two.nodes[0]), wait_s=0.2)).rails
    assert (row.gbit_s, row.sent) == (None, 0)
    assert row.error.startswith("127.0.81.2:")
    assert "was not there within 0.2 s: Connection refused" in row.error


def test_an_address_that_is_not_the_nodes_own_is_named() -> None:
    """A rail without its address says so at once."""
    two = line((("192.0.2.7",), ("127.0.81.2",)), free_below())
    (row,) = end(start(transfer_argv(two, two.nodes[0]), wait_s=0.2)).rails
    assert (row.gbit_s, row.sent) == (None, 0)
    assert "cannot listen on 192.0.2.7:" in row.error


@pytest.fixture
def stranger() -> Iterator[tuple[int, list[bytes]]]:
    """A service that is none of ours; gives its port and what it was told."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.81.2", 0)) as door:

        def answer() -> None:
            while True:
                try:
                    link, _ = door.accept()
                except OSError:
                    return
                with link:
                    link.sendall(b"SSH-2.0-OpenSSH_9.6p1\r\n")
                    heard.append(link.recv(64))

        threading.Thread(target=answer, daemon=True).start()
        yield door.getsockname()[1], heard


def test_nothing_is_sent_to_somebody_else(stranger: tuple[int, list[bytes]]) -> None:
    """Who does not answer with our greeting gets no byte beyond it."""
    port, heard = stranger
    two = line((("127.0.81.1",), ("127.0.81.2",)), port - 1)
    (row,) = end(start(transfer_argv(two, two.nodes[0]), wait_s=0.2)).rails
    assert (row.gbit_s, row.sent) == (None, 0)
    assert "something else answers there" in row.error
    assert set(heard) == {MARKER.encode()}


def test_bytes_that_nobody_confirms_do_not_count() -> None:
    """A peer that greets and then swallows everything gives a row without a rate and with the bytes sent."""
    with socket.create_server(("127.0.81.2", 0), backlog=16) as door:
        held: list[socket.socket] = []

        def swallow() -> None:
            while True:
                try:
                    link, _ = door.accept()
                except OSError:
                    return
                link.sendall(MARKER.encode())
                held.append(link)

        threading.Thread(target=swallow, daemon=True).start()
        two = line((("127.0.81.1",), ("127.0.81.2",)), door.getsockname()[1] - 1)
        most = 1024**2
        (row,) = end(start(transfer_argv(two, two.nodes[0]), wait_s=0.2, stall_s=0.3, most_bytes=most)).rails
        for link in held:
            link.close()
    assert row.gbit_s is None
    assert 0 < row.sent <= most
    assert "confirmed 0 of" in row.error


def aims(argv: tuple[str, ...]) -> list[tuple[str, str, int, int]]:
    """Return what each rail of a node sends to: own address, peer, the peer's port, how many send to the rail itself."""
    return [
        (rail["address"], rail["peer"], rail["peer_port"], rail["senders"]) for rail in plan_of(argv)["rails"]
    ]


def test_behind_a_switch_each_rail_sends_to_the_next_nodes_same_rail() -> None:
    """The last node sends to the first, and the rails' ports stand above the rendezvous' own."""
    four = line(tuple((f"10.10.1.{n}", f"10.10.2.{n}") for n in (1, 2, 3, 4)))
    assert aims(transfer_argv(four, four.nodes[3])) == [
        ("10.10.1.4", "10.10.1.1", 29502, 1),
        ("10.10.2.4", "10.10.2.1", 29503, 1),
    ]


def test_in_a_ring_each_rail_sends_to_the_node_at_its_cables_end() -> None:
    """Rail 1 leads to the next node's second rail and rail 2 to the first rail of the node before."""
    ring = line(
        (("10.10.1.1", "10.10.3.2"), ("10.10.2.1", "10.10.1.2"), ("10.10.3.1", "10.10.2.2")),
    )
    assert aims(transfer_argv(ring, ring.nodes[0])) == [
        ("10.10.1.1", "10.10.1.2", 29503, 1),
        ("10.10.3.2", "10.10.3.1", 29502, 1),
    ]


def test_the_size_is_bounded() -> None:
    """At most a GiB a rail and a twentieth of the free memory (NVIDIA/dgx-spark-playbooks#102), and an end in any case."""
    two = line((("10.10.1.1",), ("10.10.1.2",)))
    plan = plan_of(transfer_argv(two, two.nodes[0]))
    assert (plan["most_bytes"], plan["share"]) == (1024**3, 0.05)
    assert plan["limit_s"] == 70


def test_a_node_waits_as_long_as_the_collective_does() -> None:
    """Nodes come to it after probes that load them, a cold one late; the wait, the bursts and a stall fit into the limit."""
    two = line((("10.10.1.1",), ("10.10.1.2",)))
    plan = plan_of(transfer_argv(two, two.nodes[0]))
    assert plan["wait_s"] == MEET_S == 45.0
    assert f"wait_s, spend_s, began = {MEET_S}," in collective.SCRIPT
    assert plan["wait_s"] + plan["bursts"] * plan["burst_s"] + 2 * plan["stall_s"] < plan["limit_s"]
    probe = find("transfer")
    assert probe is not None
    assert plan["limit_s"] < probe.limit_s <= 120
