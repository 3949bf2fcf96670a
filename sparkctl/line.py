"""A line and its nodes, as values. Pure: decisions may import it; sparkctl/inventory.py reads it from a file."""

import hashlib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Network = Literal["fabric", "management"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """One fabric port of a node: the interface, its IPv4 address and the RDMA device behind it."""

    interface: str
    address: str
    hca: str

    def __post_init__(self) -> None:
        try:
            ipaddress.IPv4Address(self.address)
        except ValueError:
            raise ValueError(f"address: wanted an IPv4 address, found {self.address!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One GB10 box: where SSH reaches it, and its rails in the order rail 1, rail 2."""

    name: str
    rank: int
    host: str
    port: int
    user: str | None
    key_file: str | None
    rails: tuple[Rail, ...]

    @property
    def fabric_address(self) -> str:
        """Address of rail 1, where ranks meet."""
        return self.rails[0].address

    def address_on(self, network: Network) -> str:
        """Return the node's address on a network; a ring without a switch has no fabric way between all nodes."""
        return self.fabric_address if network == "fabric" else self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One serving group: its nodes by rank, its ports, and what it serves unless a flag says otherwise."""

    name: str
    nodes: tuple[Node, ...]
    recipe: str | None
    api_host: str
    api_port: int
    master_port: int
    floors: Mapping[str, float]
    known_hosts: str | None
    source: str
    is_practice: bool = False
    accepted: tuple[str, ...] = ()
    """Gates that do not keep this line from booting, by its owner's word."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    """Kernel settings that `boot --apply` gives the nodes, as text."""
    api_key_file: str | None = None
    """File on this controller with the key that the API is to want; the key itself is no part of a line."""

    @property
    def head(self) -> Node:
        """The node of rank 0, which serves the API."""
        return self.nodes[0]

    @property
    def url(self) -> str:
        """Base address of the line's API."""
        return f"http://{self.api_host}:{self.api_port}"

    @property
    def identity(self) -> str:
        """16 hex digits that stand for these nodes, whatever file or name they are written under."""
        nodes = "\n".join(sorted(f"{node.host}:{node.port}" for node in self.nodes))
        return hashlib.sha256(nodes.encode()).hexdigest()[:16]

    @property
    def workers_first(self) -> tuple[Node, ...]:
        """Nodes in launch order: highest rank first, the head last (every public launch on GB10: 3, 2, 1, then 0)."""
        return tuple(reversed(self.nodes))
