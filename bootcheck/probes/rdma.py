"""RDMA devices (HCAs) of a node: their ports, their GIDs, and which interface each belongs to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Argv, Probe, Target, ends_early

ROCE_V2 = "RoCE v2"

_FOLDER = "/sys/class/infiniband"
_EMPTY = "^0000:0000:0000:0000:0000:0000:0000:0000$"
_FIELD = re.compile(r"^\s*([a-z_]+):\s+(\S.*?)\s*$")
_MTU = re.compile(r"(256|512|1024|2048|4096) \(\d\)")
_PORT_FIELDS = ("state", "max_mtu", "active_mtu", "link_layer")
_NONE = re.compile(r"no ib devices found", re.IGNORECASE)

_PLACE = re.compile(rf"^{_FOLDER}/([^/\s]+)/ports/1/")
_ENTRY = re.compile(
    rf"^{_FOLDER}/[^/\s]+/ports/1/(gids|gid_attrs/types|gid_attrs/ndevs)/(\d{{1,5}}):(\S.*?)\s*$", re.ASCII
)
_GID = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}")
_ABSENT = re.compile(r"/ports/1/gids: No such file or directory")
_EMPTIED = re.compile(r"/ports/1/gid_attrs/(?:types|ndevs)/\d+: Invalid argument")

_PAIR = re.compile(r"^\s*(\S+)\s+port\s+(\d{1,3})\s+==>\s+(\S+)\s+\((Up|Down)\)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hca:
    """One port of one RDMA device as its driver sees it; MTUs in bytes."""

    hca: str
    port: int
    firmware: str
    state: str
    max_mtu: int
    active_mtu: int
    link_layer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hcas:
    """Every port of every RDMA device of a node."""

    probe: ClassVar[str] = "rdma"

    ports: tuple[Hca, ...]

    def named(self, hca: str) -> Hca | None:
        """Return port 1 of that device, which is all a GB10's devices have."""
        return next((one for one in self.ports if (one.hca, one.port) == (hca, 1)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """One filled entry of a device's GID table; `address` is the IPv4 address that it maps, `interface` may be unknown."""

    index: int
    kind: str
    address: str
    interface: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GidTable:
    """The GID table of one device, without its empty entries. A device that is not on the node has none."""

    probe: ClassVar[str] = "gids"

    hca: str
    is_present: bool
    gids: tuple[Gid, ...]

    def serving(self, address: str) -> tuple[int, ...]:
        """Return the indices that carry RoCE v2 for an IPv4 address."""
        return tuple(gid.index for gid in self.gids if (gid.kind, gid.address) == (ROCE_V2, address))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A device and the interface that belongs to it."""

    hca: str
    interface: str
    is_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Every device with its interface."""

    probe: ClassVar[str] = "hca-names"

    found: tuple[Pair, ...]


def gids_argv(hca: str) -> tuple[str, ...]:
    """Read a device's whole GID table in one command, without the many empty entries."""
    folder = f"{_FOLDER}/{hca}/ports/1"
    return (
        "grep",
        "-rHv",
        _EMPTY,
        f"{folder}/gids",
        f"{folder}/gid_attrs/types",
        f"{folder}/gid_attrs/ndevs",
    )


def parse_hcas(record: Record) -> Hcas | Unread:
    """Read `ibv_devinfo`; a device without one of its fields was cut off, so that nothing is known of the rest."""
    if _NONE.search(record.stdout + record.stderr) and "hca_id" not in record.stdout:
        return Hcas(ports=())
    blocks = re.split(r"^hca_id:\s*", record.stdout, flags=re.MULTILINE)
    try:
        ports = tuple(port for block in blocks[1:] for port in _ports(block))
    except ValueError as fault:
        return unread(record, str(fault))
    if not ports or blocks[0].strip() or ends_early(record):
        why = record.stderr.strip() or "not the devices of ibv_devinfo"
        return unread(record, why)
    return Hcas(ports=ports)


def _ports(block: str) -> Iterator[Hca]:
    """Read what follows `hca_id:`: the name, the device's fields, then each port's."""
    hca, _, rest = block.partition("\n")
    device, *ports = re.split(r"^\s*port:\s*(?=\d)", rest, flags=re.MULTILINE)
    own = _fields(device)
    if own.get("phys_port_cnt") != str(len(ports)) or "fw_ver" not in own:
        raise ValueError(f"the text on {hca.strip()[:40]!r} is not whole")
    for text in ports:
        number, _, rest = text.partition("\n")
        told = _fields(rest)
        mtus = [_MTU.fullmatch(told.get(name, "")) for name in ("max_mtu", "active_mtu")]
        if any(name not in told for name in _PORT_FIELDS) or not all(mtus) or not number.strip().isdecimal():
            raise ValueError(f"the text on port {number.strip()[:10]} of {hca.strip()[:40]!r} is not whole")
        most, active = (int(mtu[1]) for mtu in mtus if mtu)
        yield Hca(
            hca=hca.strip(),
            port=int(number),
            firmware=own["fw_ver"],
            state=told["state"].split()[0],
            max_mtu=most,
            active_mtu=active,
            link_layer=told["link_layer"],
        )


def _fields(text: str) -> dict[str, str]:
    return {found[1]: found[2] for line in text.splitlines() if (found := _FIELD.match(line))}


def parse_gids(record: Record) -> GidTable | Unread:
    """Read grep's `PATH:VALUE` lines. Entries without a GID have no type: the kernel calls that an invalid argument."""
    place = next((found for word in record.argv if (found := _PLACE.match(word))), None)
    rows = [_ENTRY.match(line) for line in record.stdout.split("\n") if line.strip()]
    read = {(row[1], int(row[2])): row[3] for row in rows if row}
    gids = {index: text for (kind, index), text in read.items() if kind == "gids"}
    absent, emptied = bool(_ABSENT.search(record.stderr)), bool(_EMPTIED.search(record.stderr))
    if (
        place is None
        or ends_early(record)
        or len(read) != len(rows)
        or not all(
            _GID.fullmatch(text) and ("gid_attrs/types", index) in read for index, text in gids.items()
        )
        or not (gids or absent or emptied)
    ):
        said = (line for line in record.stderr.splitlines() if line.strip() and not _EMPTIED.search(line))
        why = next(said, "not the GIDs of one device with their types")
        return unread(record, why)
    return GidTable(
        hca=place[1],
        is_present=not absent,
        gids=tuple(
            Gid(
                index=index,
                kind=read["gid_attrs/types", index],
                address=str(IPv6Address(gids[index]).ipv4_mapped or ""),
                interface=read.get(("gid_attrs/ndevs", index), ""),
            )
            for index in sorted(gids)
        ),
    )


def parse_pairs(record: Record) -> Pairs | Unread:
    """Read `ibdev2netdev` by its words: how it pads its columns differs between releases."""
    rows = [_PAIR.match(line) for line in record.stdout.splitlines() if line.strip()]
    if not rows or not all(rows) or ends_early(record):
        why = record.stderr.strip() or "not the pairs of ibdev2netdev"
        return unread(record, why)
    return Pairs(found=tuple(Pair(hca=row[1], interface=row[3], is_up=row[4] == "Up") for row in rows if row))


def _tables(target: Target) -> tuple[Argv, ...]:
    return tuple(gids_argv(hca) for hca in dict.fromkeys(rail.hca for rail in target.node.rails))


PROBES = (
    Probe(
        name="rdma",
        moves=True,
        about="RDMA devices with firmware, state and MTU of their ports",
        argvs=lambda _: (("ibv_devinfo",),),
        parse=parse_hcas,
        limit_s=10,
    ),
    Probe(
        name="gids",
        about="GIDs of each rail's RDMA device with type and interface",
        argvs=_tables,
        parse=parse_gids,
        limit_s=5,
    ),
    Probe(
        name="hca-names",
        about="which interface belongs to which RDMA device; ibdev2netdev may be missing",
        argvs=lambda _: (("ibdev2netdev",),),
        parse=parse_pairs,
        limit_s=10,
    ),
)
