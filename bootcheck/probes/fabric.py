"""Fabric of a node as IP sees it: interfaces with addresses and MTU, and don't-fragment pings to the other nodes."""

import json
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Argv, Probe, Target

# An IPv4 header is 20 bytes, an ICMP echo header 8.
HEADERS = 28
# The kernel's own type for an MTU is 32 bits wide; some interfaces that carry no IP have 0.
_MOST_MTU = 2**32 - 1

_COUNTS = re.compile(r"(?<![\d.,-])(\d{1,9}) packets transmitted, (\d{1,9}) (?:packets )?received")
_LOCAL = re.compile(r"local error: message too long, mtu[=:]\s*(\d{1,9})(?![\d.,])", re.IGNORECASE)
_TOLD = re.compile(r"^(?:From \S+ icmp_seq=\d+|ping: (?:connect|sendmsg):) (\S.*?)\s*$", re.MULTILINE)
_ODD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of an interface, IPv4 or IPv6, with the length of its network's prefix."""

    address: str
    prefix: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One network interface."""

    interface: str
    mtu: int
    is_up: bool
    addresses: tuple[Address, ...]

    def network(self, address: str) -> IPv4Network | None:
        """Return the network that one of its IPv4 addresses lies in."""
        found = next((one for one in self.addresses if one.address == address), None)
        return IPv4Interface(f"{found.address}/{found.prefix}").network if found else None

    @property
    def has_ipv4(self) -> bool:
        """Whether it has an IPv4 address."""
        return any(":" not in one.address for one in self.addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """All network interfaces."""

    probe: ClassVar[str] = "links"

    interfaces: tuple[Link, ...]

    def holding(self, address: str) -> Link | None:
        """Return the interface that has this address."""
        held = (link for link in self.interfaces if any(one.address == address for one in link.addresses))
        return next(held, None)

    def named(self, interface: str) -> Link | None:
        """Return the interface of that name."""
        return next((link for link in self.interfaces if link.interface == interface), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A don't-fragment ping: who was asked, with how many payload bytes, and how many came back.

    `local_mtu` is set when our own interface refused the packet, which is another fault than silence on the path;
    `told` is what the kernel or a node on the way said instead of an answer, such as `Destination Host Unreachable`.
    """

    probe: ClassVar[str] = "jumbo-ping"

    address: str
    payload: int
    sent: int
    received: int
    local_mtu: int | None
    told: str = ""

    @property
    def is_lost(self) -> bool:
        """Whether any packet did not come back, or none could be sent."""
        return self.received < max(self.sent, 1)

    @property
    def size(self) -> int:
        """Bytes of the whole packet, which is what an MTU bounds."""
        return self.payload + HEADERS


def ping_argv(address: str, mtu: int) -> tuple[str, ...]:
    """Two don't-fragment pings whose packets are exactly `mtu` bytes on the wire."""
    return ("ping", "-M", "do", "-s", str(mtu - HEADERS), "-c", "2", "-i", "0.2", "-W", "2", address)


def parse_links(record: Record) -> Links | Unread:
    """Read `ip -j addr`; every node has at least its loopback interface.

    An entry that does not fit is passed over where it has no IPv4 address: it is no rail, and stands in no rail's way.
    """
    try:
        links = tuple(link for one in json.loads(record.stdout) if (link := _link_or_none(one)))
    except _ODD:
        links = ()
    if not links:
        return unread(record, _why(record, "not the JSON of ip -j addr"))
    return Links(interfaces=links)


def _link_or_none(told: Any) -> Link | None:
    try:
        return _link(told)
    except _ODD:
        if any(":" not in str(one["local"]) for one in told.get("addr_info", ()) if "local" in one):
            raise
        return None


def _link(told: Any) -> Link:
    mtu = told["mtu"]
    if type(mtu) is not int or not 0 <= mtu <= _MOST_MTU:
        raise ValueError(f"{mtu!r} is no MTU")
    return Link(
        interface=str(told["ifname"]),
        mtu=mtu,
        is_up="LOWER_UP" in told.get("flags", ()),
        addresses=tuple(_address(one) for one in told.get("addr_info", ()) if "local" in one),
    )


def _address(told: Any) -> Address:
    address, prefix = str(told["local"]), told["prefixlen"]
    most = 128 if ":" in address else IPv4Address(address).max_prefixlen
    if not isinstance(prefix, int) or not 0 <= prefix <= most:
        raise ValueError(f"{prefix!r} is no prefix length")
    return Address(address=address, prefix=prefix)


def parse_ping(record: Record) -> Ping | Unread:
    """Read `ping` of iputils; address and size come from the command itself.

    A kernel that refuses to send at all is an answer too: no packet came back, and `told` says why.
    """
    words = dict(zip(record.argv, record.argv[1:], strict=False))
    size = words.get("-s", "")
    text = f"{record.stdout}\n{record.stderr}"
    counts, told, local = _COUNTS.search(text), _TOLD.findall(text), _LOCAL.search(text)
    sent, received = (int(counts[1]), int(counts[2])) if counts else (0, 0)
    if not size.isdecimal() or not (counts or told) or received > sent:
        why = _why(record, "no packet counts in ping's output")
        return unread(record, why)
    return Ping(
        address=record.argv[-1],
        payload=int(size),
        sent=sent,
        received=received,
        local_mtu=int(local[1]) if local else None,
        told=told[-1] if told else "",
    )


def _why(record: Record, why: str) -> str:
    return record.stderr.strip() or why


def _pings(target: Target) -> tuple[Argv, ...]:
    """Two sizes an address: what is enough and what is recommended, which tell a small MTU from a path that swallows."""
    sizes = dict.fromkeys(round(one.value) for one in (target.floors.mtu, target.floors.mtu_recommended))
    addresses = [rail.address for peer in target.peers for rail in peer.rails]
    return tuple(ping_argv(address, size) for address in addresses for size in sizes)


PROBES = (
    Probe(
        name="links",
        moves=True,
        about="interfaces with addresses, prefix lengths and MTU",
        argvs=lambda _: (("ip", "-j", "addr"),),
        parse=parse_links,
        limit_s=5,
    ),
    Probe(
        name="jumbo-ping",
        moves=True,
        about="don't-fragment pings of two sizes to every fabric address of every other node",
        argvs=_pings,
        parse=parse_ping,
        limit_s=10,
    ),
)
