"""Gates on how the nodes are joined: from addresses and prefix lengths to who is one hop away from whom, and through which port."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bootcheck.gates.ends import End, ends, joined, of_node
from bootcheck.gates.gate import Demand, LineGate, Scene, Seen, answers
from bootcheck.probes.fabric import Links
from bootcheck.probes.ports import Ports, suffix_port
from sparkctl.line import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cabling:
    """The line as its addresses draw it. `names` are the nodes that have an address on an interface, by rank."""

    names: tuple[str, ...]
    size: int
    every: tuple[End, ...]
    ports: dict[tuple[str, str], int]

    def neighbours(self, name: str) -> frozenset[str]:
        """The nodes that are one hop from one."""
        own = of_node(self.every, name)
        return frozenset(other.node for end in own for other in joined(end, self.every))

    def strangers(self, name: str) -> tuple[str, ...]:
        """The nodes that are not."""
        near = self.neighbours(name)
        return tuple(one for one in self.names if one != name and one not in near)

    def switched(self, name: str) -> tuple[End, ...]:
        """The ends of a node that every other node is one hop from: behind a switch, or a cable between two nodes."""
        others = set(self.names) - {name}
        own = (end for end in of_node(self.every, name) if end.network)
        return tuple(end for end in own if {one.node for one in joined(end, self.every)} == others)

    @property
    def is_ring(self) -> bool:
        """Whether every node has two neighbours and a walk along them comes past all nodes."""
        if len(self.names) < 3 or any(len(self.neighbours(name)) != 2 for name in self.names):
            return False
        seen, now = [self.names[0]], self.names[0]
        while step := sorted(self.neighbours(now) - set(seen)):
            now = step[0]
            seen.append(now)
        return len(seen) == len(self.names)

    def port(self, end: End) -> int | None:
        """The port behind an end: as the driver says, else as its interface is named."""
        return self.ports.get((end.node, end.rail.interface), suffix_port(end.rail.interface))


def _draw(scene: Scene) -> _Cabling:
    every = ends(scene)
    named = dict.fromkeys(end.node for end in every if end.network)
    ports, _ = answers(scene, Ports)
    return _Cabling(
        names=tuple(named),
        size=len(scene.line.nodes),
        every=every,
        ports={
            (node.name, one.interface): one.port
            for node, told in ports.items()
            for one in told.rails
            if one.port is not None
        },
    )


def _judge(scene: Scene) -> Iterator[tuple[Node, Seen]]:
    read, unread = answers(scene, Links)
    yield from unread
    cabling = _draw(scene)
    for node in scene.line.nodes:
        if node in read:
            yield node, _judge_node(node, cabling, scene)


def _judge_node(node: Node, cabling: _Cabling, scene: Scene) -> Seen:
    if cabling.size == 1:
        return Seen(verdict="pass", measured="one node, no fabric")
    if node.name not in cabling.names:
        return Seen(verdict="fail", measured="no interface has any of its fabric addresses")
    strangers = cabling.strangers(node.name)
    if cabling.is_ring and strangers:
        return _judge_ring(node, strangers, cabling, scene)
    if strangers:
        near = ", ".join(sorted(cabling.neighbours(node.name))) or "no node"
        return Seen(
            verdict="fail",
            measured=f"is not one hop from {', '.join(strangers)} (only from {near})",
            hint="give the nodes of a rail addresses in one network, or join them with a switch",
        )
    return _judge_ports(node, cabling)


def _judge_ring(node: Node, strangers: tuple[str, ...], cabling: _Cabling, scene: Scene) -> Seen:
    size, most = len(cabling.names), scene.floors.ring_nodes.value
    measured = f"a ring of {size} nodes without a switch: no way to {', '.join(strangers)}"
    if size > most:
        return Seen(
            verdict="fail",
            measured=measured,
            hint="join the nodes with a switch; with an NCCL that was built for rings only, "
            f"set floors.ring_nodes to {size} in the inventory",
        )
    seen = _judge_ports(node, cabling)
    return Seen(verdict=seen.verdict, measured=f"{measured}; {seen.measured}", hint=seen.hint)


def _judge_ports(node: Node, cabling: _Cabling) -> Seen:
    """Judge what is joined: each rail in one network where there is a switch, p0 to p1 in a ring."""
    strange, hint = [], ""
    if cabling.switched(node.name):
        strange = list(_crossed_rails(node, cabling))
        hint = "put the node's fabric entries in the inventory in the order of the others' networks"
    elif cabling.is_ring:
        strange = list(_crossed_ports(node, cabling))
        hint = (
            "in a ring each node's p0 goes to the next node's p1: compare cables and addresses, rail by rail"
        )
    if strange:
        return Seen(verdict="warn", measured="; ".join(strange), hint=hint)
    return Seen(verdict="pass", measured=_describe(node, cabling))


def _crossed_rails(node: Node, cabling: _Cabling) -> Iterator[str]:
    """Name each rail that is not in the network of most of the others' rails of that number."""
    for end in of_node(cabling.every, node.name):
        if end.network is None:
            continue
        same = Counter(one.network for one in cabling.every if one.number == end.number and one.network)
        if rivals := [net for net in same if net != end.network and same[net] >= same[end.network]]:
            yield f"rail {end.number} is in {end.network}, the others' in {_listed(map(str, rivals))}"


def _crossed_ports(node: Node, cabling: _Cabling) -> Iterator[str]:
    """Name each cable between two nodes whose ends are not one p0 and one p1, and a port that leads to two nodes."""
    ways: dict[int, set[str]] = {}
    for end in of_node(cabling.every, node.name):
        here, others = cabling.port(end), joined(end, cabling.every)
        if here is None or len(others) != 1:
            continue
        far = others[0]
        ways.setdefault(here, set()).add(far.node)
        if cabling.port(far) == here:
            yield f"{end.network}: p{here} goes to p{here} of {far.node}"
    for port, names in sorted(ways.items()):
        if len(names) > 1:
            yield f"p{port} leads to {' and '.join(sorted(names))}, yet it takes one cable"


def _describe(node: Node, cabling: _Cabling) -> str:
    own = of_node(cabling.every, node.name)
    ports = sorted({port for end in own if (port := cabling.port(end)) is not None})
    halves = len([end for end in own if cabling.port(end) is not None]) > len(ports)
    through = f"; through {_listed(f'p{port}' for port in ports)}" if ports else ""
    through += ", rails on one port are halves of one cable" if halves else ""
    known = len(cabling.names)
    unknown = f"; {cabling.size - known} more not known" if known < cabling.size else ""
    if switched := cabling.switched(node.name):
        nets = _listed(str(end.network) for end in switched)
        return f"{nets} {'joins' if len(switched) == 1 else 'join'} {known} nodes{through}{unknown}"
    return f"one hop from each of {known - 1} others{through}{unknown}"


def _listed(words: Iterable[str]) -> str:
    return " and ".join(words)


GATES = (
    LineGate(
        name="cabling",
        section="fabric",
        about="every node is one hop from every other, and a ring's cables go from p0 to p1",
        demand=lambda floors: Demand(
            wanted="a network shared with every other node; without a switch a ring of at most "
            f"{floors.ring_nodes.value:g}, p0 to p1",
            origin=f"{floors.ring_nodes.origin}; one port shows as two interfaces (NVIDIA/NemoClaw#8520, reported)",
        ),
        remedy="compare the nodes' addresses with the cables; four and more nodes need a switch, or an NCCL built for rings only",
        troubles=(
            "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#3",
            "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#19",
            "tonyd2wild/GLM-5.3-Int4-Int8Mix-TP4-4x-DGX-Spark#2",
            "NVIDIA/NemoClaw#8520",
        ),
        judge=_judge,
    ),
)
