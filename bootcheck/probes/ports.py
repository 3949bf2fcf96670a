"""Ports of a node behind its rails: which socket of the card, how fast the link is, and whose profile configures it."""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Argv, Probe, Target, ends_early

_VALUE = re.compile(r"^/sys/class/net/([^/\s]+)/(phys_port_name|speed):(\S+)\s*$")
_REFUSED = re.compile(r"^(?:\S*/)?grep: /sys/class/net/([^/\s]+)/(?:phys_port_name|speed): ", re.MULTILINE)
_PORT = re.compile(r"p(\d{1,3})")
_SUFFIX = re.compile(r"np(\d{1,3})$")
_SPEED = re.compile(r"-?\d{1,9}", re.ASCII)

# A name may hold spaces, so the columns are told by the UUID in the second one.
_PROFILE = re.compile(
    r"^(\S.*?)\s+[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\s+(\S+)\s+(\S+)\s+(\S.*?)\s*$", re.IGNORECASE
)
_HEADER = ("NAME", "UUID", "TYPE", "DEVICE", "FILENAME")
_NOT_RUNNING = "networkmanager is not running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """The port behind one interface: `port` is 0 or 1 for p0 or p1, `speed` in Mb/s; None where the node does not say."""

    interface: str
    port: int | None
    speed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports behind all rails of a node."""

    probe: ClassVar[str] = "ports"

    rails: tuple[Port, ...]

    def named(self, interface: str) -> Port | None:
        """Return the port behind that interface."""
        return next((one for one in self.rails if one.interface == interface), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One connection profile of NetworkManager; `device` is empty where none uses it."""

    name: str
    device: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """All connection profiles; none where NetworkManager does not run."""

    probe: ClassVar[str] = "nm-profiles"

    found: tuple[Profile, ...]


def suffix_port(interface: str) -> int | None:
    """Return the port that systemd wrote into the interface's name: 1 for enp1s0f1np1."""
    found = _SUFFIX.search(interface)
    return int(found[1]) if found else None


def parse_ports(record: Record) -> Ports | Unread:
    """Read `grep -H . FILE...`; a file that the driver does not serve is an error of grep's and None here.

    A speed of -1, or none at all, is what the kernel has for a link that is down.
    """
    values = [_VALUE.match(line) for line in record.stdout.split("\n") if line.strip()]
    refused = _REFUSED.findall(record.stderr)
    found = {(value[1], value[2]): value[3] for value in values if value}
    # Half a line at the end would pass for a lower speed.
    if ends_early(record) or len(found) != len(values) or not (found or refused):
        why = record.stderr.strip() or "not the lines of grep -H"
        return unread(record, why)
    names = dict.fromkeys([*(name for name, _ in found), *refused])
    return Ports(
        rails=tuple(
            Port(
                interface=name,
                port=_port(found.get((name, "phys_port_name"), "")),
                speed=_speed(found.get((name, "speed"), "")),
            )
            for name in names
        )
    )


def _port(text: str) -> int | None:
    found = _PORT.fullmatch(text)
    return int(found[1]) if found else None


def _speed(text: str) -> int | None:
    found = _SPEED.fullmatch(text)
    speed = int(found[0]) if found else 0
    return speed if speed > 0 else None


def parse_profiles(record: Record) -> Profiles | Unread:
    """Read `nmcli -f NAME,UUID,TYPE,DEVICE,FILENAME connection show`."""
    if _NOT_RUNNING in record.stderr.lower():
        return Profiles(found=())
    lines = [line for line in record.stdout.split("\n") if line.strip()]
    rows = [_PROFILE.match(line) for line in lines[1:]]
    if not lines or tuple(lines[0].split()) != _HEADER or not all(rows):
        why = record.stderr.strip() or "not the table that nmcli was asked for"
        return unread(record, why)
    return Profiles(
        found=tuple(
            Profile(name=row[1], device="" if row[3] == "--" else row[3], path=row[4]) for row in rows if row
        )
    )


def _files(target: Target) -> tuple[Argv, ...]:
    folders = [f"/sys/class/net/{rail.interface}" for rail in target.node.rails]
    files = [f"{folder}/{name}" for folder in folders for name in ("phys_port_name", "speed")]
    return (("grep", "-H", ".", *files),)


PROBES = (
    Probe(
        name="ports",
        about="port and link speed behind each rail",
        argvs=_files,
        parse=parse_ports,
        limit_s=5,
    ),
    Probe(
        name="nm-profiles",
        about="which profile of NetworkManager configures which interface; nmcli may be missing",
        argvs=lambda _: (("nmcli", "-f", "NAME,UUID,TYPE,DEVICE,FILENAME", "connection", "show"),),
        parse=parse_profiles,
        limit_s=10,
    ),
)
