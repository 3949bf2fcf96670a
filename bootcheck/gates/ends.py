"""Ends: every rail of every node as the nodes themselves show it, and the networks that join them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from bootcheck.gates.gate import Scene
from bootcheck.probes.fabric import Link, Links
from sparkctl.line import Rail


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One rail of one node; `number` counts from 1. `link` and `network` are None where no interface has the address.

    `is_read` is false where the node's interfaces could not be read at all, so that nothing is known.
    """

    node: str
    number: int
    rail: Rail
    address: IPv4Address
    link: Link | None
    network: IPv4Network | None
    is_read: bool

    def reaches(self, address: IPv4Address) -> bool:
        """Whether an address lies in its network."""
        return self.network is not None and address in self.network

    def joins(self, other: "End") -> bool:
        """Whether two ends are one hop apart: each holds the other's address for one of its own network."""
        return self.reaches(other.address) and other.reaches(self.address)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is known against it: its address is there and its link is up."""
        return not self.is_read or (self.link is not None and self.link.is_up)


def ends(scene: Scene) -> tuple[End, ...]:
    """Return every end of the line, by rank and rail."""
    read = {facts.node: facts.one(Links) for _, facts in scene.answering()}
    found = []
    for node in scene.line.nodes:
        links = read.get(node.name)
        known = links if isinstance(links, Links) else None
        for number, rail in enumerate(node.rails, start=1):
            link = known.holding(rail.address) if known else None
            found.append(
                End(
                    node=node.name,
                    number=number,
                    rail=rail,
                    address=IPv4Address(rail.address),
                    link=link,
                    network=link.network(rail.address) if link else None,
                    is_read=known is not None,
                )
            )
    return tuple(found)


def of_node(every: Iterable[End], node: str) -> tuple[End, ...]:
    """Return the ends of one node."""
    return tuple(end for end in every if end.node == node)


def holding(every: Iterable[End], address: str) -> End | None:
    """Return the end of that address."""
    return next((end for end in every if end.rail.address == address), None)


def joined(end: End, every: Iterable[End]) -> tuple[End, ...]:
    """Return the ends of other nodes that are one hop from an end."""
    return tuple(one for one in every if one.node != end.node and one.joins(end))
