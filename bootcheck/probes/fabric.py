"""Fabric of a node: interfaces with their MTU, and don't-fragment pings to the other nodes."""

import json
import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread
from bootcheck.probes.probe import Argv, Probe, Target

# An IPv4 header is 20 bytes, an ICMP echo header 8.
_HEADERS = 28
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) received")
_LOCAL = re.compile(r"local error: message too long, mtu[=:]\s*(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One network interface."""

    interface: str
    mtu: int
    is_up: bool
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """All network interfaces."""

    probe: ClassVar[str] = "links"

    interfaces: tuple[Link, ...]

    def holding(self, address: str) -> Link | None:
        """Return the interface that has this address."""
        return next((link for link in self.interfaces if address in link.addresses), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A don't-fragment ping: who was asked, with how many payload bytes, and how many came back.

    `local_mtu` is set when our own interface refused the packet, which is another fault than silence on the path.
    """

    probe: ClassVar[str] = "jumbo-ping"

    address: str
    payload: int
    sent: int
    received: int
    local_mtu: int | None


def ping_argv(address: str, mtu: int) -> tuple[str, ...]:
    """Two don't-fragment pings whose packets are exactly `mtu` bytes on the wire."""
    return ("ping", "-M", "do", "-s", str(mtu - _HEADERS), "-c", "2", "-i", "0.2", "-W", "2", address)


def parse_links(record: Record) -> Links | Unread:
    """Read `ip -j addr`."""
    try:
        found = json.loads(record.stdout)
        links = tuple(
            Link(
                interface=str(one["ifname"]),
                mtu=int(one["mtu"]),
                is_up="LOWER_UP" in one.get("flags", ()),
                addresses=tuple(str(address["local"]) for address in one.get("addr_info", ())),
            )
            for one in found
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Unread(probe=record.probe, why="not the JSON of ip -j addr", seen=record.stdout)
    return Links(interfaces=links)


def parse_ping(record: Record) -> Ping | Unread:
    """Read `ping` of iputils; the address and size come from the command itself."""
    counts = _COUNTS.search(record.stdout)
    if not counts:
        why = record.stderr.strip() or "no packet counts in ping's output"
        return Unread(probe=record.probe, why=why, seen=record.stdout)
    local = _LOCAL.search(record.stdout + record.stderr)
    return Ping(
        address=record.argv[-1],
        payload=int(record.argv[record.argv.index("-s") + 1]),
        sent=int(counts[1]),
        received=int(counts[2]),
        local_mtu=int(local[1]) if local else None,
    )


def _pings(target: Target) -> tuple[Argv, ...]:
    mtu = round(target.floors.mtu.value)
    return tuple(ping_argv(rail.address, mtu) for peer in target.peers for rail in peer.rails)


PROBES = (
    Probe(
        name="links",
        about="interfaces with addresses and MTU",
        argvs=lambda _: (("ip", "-j", "addr"),),
        parse=parse_links,
        limit_s=5,
    ),
    Probe(
        name="jumbo-ping",
        about="don't-fragment ping of full size to every fabric address of every other node",
        argvs=_pings,
        parse=parse_ping,
        limit_s=10,
    ),
)
