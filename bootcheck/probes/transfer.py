"""Transfer: a short real transfer over each rail, from every node to the next one at once.

A link may say 200 Gb/s and carry 13 (NVIDIA/dgx-spark-playbooks#108). Plain TCP from the node's own Python needs neither
root nor a tool that a node may lack, and finds such a link; what a sound link can do is for a collective to measure.
"""

import json
from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import MEET_S, Argv, Probe, Target
from sparkctl.line import Line, Node, Rail
from sparkctl.units import GIB

MARKER = "sparkctl-transfer"

_STALL_S = 5
_LIMIT_S = round(MEET_S) + 25
# One TCP stream does not fill a rail. The best of several short bursts counts: a burst that the node's own processors
# held up says nothing of the link, and no burst over a degraded link is fast.
_STREAMS, _BURSTS, _BURST_S = 4, 6, 0.15
# A test of 16 GB froze a node (NVIDIA/dgx-spark-playbooks#102): at most a GiB a rail, less where less memory is free.
_MOST_BYTES, _MOST_SHARE = GIB, 0.05

TRANSFER_SCRIPT = """
import json, signal, socket, struct, subprocess, sys, threading, time
plan = json.loads(sys.argv[-1])
signal.alarm(plan["limit_s"])  # whatever happens, it ends by itself
HELLO, CHUNK, until = b"sparkctl-transfer", 1 << 20, time.monotonic() + plan["wait_s"]
streams, bursts = plan["streams"], plan["bursts"]
drained, heard = threading.Semaphore(0), [0.0]
def bounded(link):
    link.setblocking(True)
    for name in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        link.setsockopt(socket.SOL_SOCKET, name, struct.pack("ll", int(plan["stall_s"]), int(plan["stall_s"] % 1 * 1e6)))
def exactly(link, size):
    text = b""
    while len(text) < size:
        more = link.recv(size - len(text))
        if not more:
            raise OSError("it hung up")
        text += more
    return text
def greeted(link):
    bounded(link)
    link.sendall(HELLO)
    if exactly(link, len(HELLO)) != HELLO:
        raise OSError("something else answers there")
def drain(link):
    total, space = 0, bytearray(CHUNK)
    try:
        with link:
            greeted(link)
            try:
                got = link.recv_into(space)
                while got:
                    total, heard[0] = total + got, time.monotonic()
                    got = link.recv_into(space)
                link.sendall(struct.pack("!Q", total))
            finally:
                drained.release()
    except OSError:
        pass  # the sender tells that nothing was confirmed
def welcome(door):
    while True:
        threading.Thread(target=drain, args=(door.accept()[0],), daemon=True).start()
def reach(rail):
    while True:
        try:
            link = socket.create_connection((rail["peer"], rail["peer_port"]), 2, (rail["address"], 0))
            greeted(link)
            return link
        except OSError as told:
            fault = told.strerror or str(told)
        if time.monotonic() > until:
            raise OSError("%s:%d was not there within %g s: %s" % (rail["peer"], rail["peer_port"], plan["wait_s"], fault))
        time.sleep(0.1)
def pour(link, share, stop, done):
    sent = counted = 0
    data = memoryview(bytes(CHUNK))
    try:
        with link:
            while sent < share and time.monotonic() < stop:
                sent += link.send(data[: share - sent])
            link.shutdown(socket.SHUT_WR)
            counted = struct.unpack("!Q", exactly(link, 8))[0]
    except OSError:
        pass  # what was not confirmed does not count
    done.append((sent, counted))
def burst(rail, most, row):
    links, done = [reach(rail) for _ in range(streams)], []
    start = time.monotonic()
    stop = start + plan["burst_s"]
    pouring = [threading.Thread(target=pour, args=(link, most // streams, stop, done), daemon=True) for link in links]
    for one in pouring:
        one.start()
    for one in pouring:
        one.join()
    took = time.monotonic() - start
    sent, counted = map(sum, zip(*done))
    row["bytes"] += sent
    if counted != sent:
        raise OSError("%s confirmed %d of %d bytes" % (rail["peer"], counted, sent))
    row["gbit_s"] = max(row["gbit_s"] or 0, round(sent * 8 / took / 1e9, 3))
def send(rail, most, row):
    try:
        for _ in range(bursts):
            burst(rail, most, row)
    except OSError as fault:
        row["error"] = str(fault)
def room():
    said = subprocess.run(["cat", "/proc/meminfo"], stdout=subprocess.PIPE, universal_newlines=True).stdout
    free = [int(line.split()[1]) * 1024 for line in said.splitlines() if line.startswith("MemAvailable:")]
    return int(min([plan["most_bytes"], *(one * plan["share"] for one in free)]))
rows, sending, wanted, most = [], [], 0, room() // bursts
for rail in plan["rails"]:
    row = {"address": rail["address"], "peer": rail["peer"], "gbit_s": None, "bytes": 0, "error": ""}
    rows.append(row)
    try:
        door = socket.create_server((rail["address"], rail["port"]), backlog=64)
    except OSError as fault:
        row["error"] = "cannot listen on %s:%d: %s" % (rail["address"], rail["port"], fault.strerror)
        continue
    wanted += rail["senders"] * streams * bursts
    threading.Thread(target=welcome, args=(door,), daemon=True).start()
    sending.append(threading.Thread(target=send, args=(rail, most, row), daemon=True))
for one in sending:
    one.start()
for one in sending:
    one.join()
while wanted:
    left = max(until, heard[0] + plan["stall_s"]) - time.monotonic()
    if drained.acquire(timeout=max(0.0, left)):
        wanted -= 1
    elif left <= 0:
        break  # nobody came in time, or who came has fallen silent
print(json.dumps({"probe": "transfer", "rails": rows}), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What one rail carried to a peer: the best rate in Gb/s as confirmed by the peer, bytes sent, and what went wrong."""

    address: str
    peer: str
    gbit_s: float | None
    sent: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """What every rail of a node carried."""

    probe: ClassVar[str] = "transfer"

    rails: tuple[Transfer, ...]


def transfer_argv(line: Line, node: Node) -> tuple[str, ...]:
    """Send from each rail of a node to the next node, and take in what the node before sends."""
    aims = {
        rail.address: _aim(line, one, number) for one in line.nodes for number, rail in enumerate(one.rails)
    }
    senders = Counter(peer.address for _, peer in aims.values())
    rails = []
    for number, rail in enumerate(node.rails):
        place, peer = aims[rail.address]
        rails.append(
            {
                "address": rail.address,
                "port": _port(line, number),
                "peer": peer.address,
                "peer_port": _port(line, place),
                "senders": senders[rail.address],
            }
        )
    plan = {
        "rails": rails,
        "streams": _STREAMS,
        "bursts": _BURSTS,
        "burst_s": _BURST_S,
        "most_bytes": _MOST_BYTES,
        "share": _MOST_SHARE,
        "wait_s": MEET_S,
        "stall_s": _STALL_S,
        "limit_s": _LIMIT_S,
    }
    return ("python3", "-c", TRANSFER_SCRIPT, MARKER, json.dumps(plan, separators=(",", ":")))


def _port(line: Line, number: int) -> int:
    """Return the port of the nth rail, above the rendezvous' own and the same on every node."""
    return line.master_port + 1 + number


def _aim(line: Line, node: Node, number: int) -> tuple[int, Rail]:
    """Return where a rail sends to: number and rail of the next node that has an address in its /24.

    Where there is none it is the next node's same rail: how long the prefixes really are is known only once the nodes
    have been asked, and the gate passes over a pair that shares no network.
    """
    near = IPv4Interface(f"{node.rails[number].address}/24").network
    after = (*line.nodes[node.rank + 1 :], *line.nodes[: node.rank])
    for peer in after:
        for place in (number, *range(len(peer.rails))):
            if IPv4Address(peer.rails[place].address) in near:
                return place, peer.rails[place]
    return number, after[0].rails[number]


def parse_transfers(record: Record) -> Transfers | Unread:
    """Read the last line of the script: a row for each rail."""
    lines = record.stdout.strip().splitlines()
    if record.rc != 0 or not lines:
        said = (record.stderr.strip().splitlines() or ["no output"])[-1]
        why = f"the transfer ended with {record.rc}: {said}"
        return unread(record, why)
    try:
        rails = tuple(_transfer(row) for row in json.loads(lines[-1])["rails"])
    except (ValueError, KeyError, TypeError, RecursionError):
        rails = ()
    if not rails:
        return unread(record, "not the JSON line of the transfer")
    return Transfers(rails=rails)


def _transfer(told: Any) -> Transfer:
    rate, sent = told["gbit_s"], told["bytes"]
    is_rate = rate is None or (isinstance(rate, int | float) and 0 <= rate < 1e4)
    if not is_rate or not isinstance(sent, int) or sent < 0 or (rate is None and not told["error"]):
        raise ValueError("a rate or a size that cannot be, or silence without a reason")
    return Transfer(
        address=str(told["address"]),
        peer=str(told["peer"]),
        gbit_s=None if rate is None else float(rate),
        sent=sent,
        error=str(told["error"]),
    )


def _argvs(target: Target) -> tuple[Argv, ...]:
    return (transfer_argv(target.line, target.node),) if target.peers else ()


PROBES = (
    Probe(
        name="transfer",
        about="a short real transfer over each rail to the next node; not run while the GPU has a compute process",
        argvs=_argvs,
        parse=parse_transfers,
        limit_s=_LIMIT_S + 5,
        group="alone",
        only_if_quiet="gpu-processes",
        most_lines=1,
    ),
)
