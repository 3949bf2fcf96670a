"""Lines of other shapes than the example's: rings, pairs, chains, and addresses that will not last."""

import json
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest

from bootcheck.facts import NodeFacts
from bootcheck.findings import Finding
from bootcheck.floors import Floors, override
from bootcheck.gates import addresses, cabling
from bootcheck.gates.gate import Scene
from bootcheck.needs import Needs
from bootcheck.probes.fabric import Address, Link, Links
from bootcheck.probes.ports import Port, Ports
from sparkctl.line import Line, Node, Rail

CASES = sorted((Path(__file__).parent / "cablings").glob("*.json"))
GATES = (*cabling.GATES, *(gate for gate in addresses.GATES if gate.name == "addresses"))
NEEDS = Needs(image="", model_path="", model_folder="", mounts={}, environments={}, arguments={})


def node(rank: int, name: str, wires: dict[str, str | None]) -> Node:
    """Return a node; a wire without an address is one that the inventory gives and the node lacks."""
    rails = tuple(
        Rail(interface=interface, address=(address or f"10.99.{place}.{rank + 1}").split("/")[0], hca="")
        for place, (interface, address) in enumerate(wires.items())
    )
    return Node(
        name=name, rank=rank, host=f"192.0.2.{10 + rank}", port=22, user=None, key_file=None, rails=rails
    )


def links(host: str, wires: dict[str, str | None]) -> Links:
    """Return what `ip` shows of these wires and of the management interface."""
    held = {"enP7s7": f"{host}/24", **wires}
    return Links(
        interfaces=tuple(
            Link(interface=interface, mtu=9000, is_up=True, addresses=(_address(address),) if address else ())
            for interface, address in held.items()
        )
    )


def _address(text: str) -> Address:
    found = IPv4Interface(text)
    return Address(address=str(found.ip), prefix=found.network.prefixlen)


def judged(case: dict[str, Any]) -> list[Finding]:
    """Return what the gates say of a line that is cabled so."""
    nodes = tuple(node(rank, name, wires) for rank, (name, wires) in enumerate(case["nodes"].items()))
    line = Line(
        name="A",
        nodes=nodes,
        recipe=None,
        api_host="",
        api_port=8000,
        master_port=29501,
        floors={},
        known_hosts=None,
        source="",
    )
    facts = tuple(
        NodeFacts(
            node=one.name,
            read={
                "links": (links(one.host, case["nodes"][one.name]),),
                "ports": (Ports(rails=_ports(case.get("ports", {}).get(one.name, {}))),),
            },
        )
        for one in nodes
    )
    floors = override(Floors(), case.get("floors", {}), "the case")
    scene = Scene(line=line, needs=NEEDS, facts=facts, floors=floors)
    return [found for gate in GATES for found in gate.findings(scene)]


def _ports(told: dict[str, int]) -> tuple[Port, ...]:
    return tuple(Port(interface=name, port=port, speed=None) for name, port in told.items())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_cabling_is_told_from_its_addresses(path: Path) -> None:
    """Exactly the findings of the file differ from pass; `told` is what a pass says, `hint` what every other one advises."""
    case = json.loads(path.read_text())
    found = judged(case)
    assert len(found) == len(case["nodes"]) * len(GATES)
    differing = {(one.node, one.gate): one for one in found if one.verdict != "pass"}
    assert {(*key, one.verdict) for key, one in differing.items()} == {
        (name, gate, verdict) for name, gate, verdict, _ in case["findings"]
    }
    for name, gate, _, measured in case["findings"]:
        assert measured in differing[name, gate].measured
        assert case.get("hint", "") in differing[name, gate].hint
    for name, (gate, measured) in case.get("told", {}).items():
        assert measured in next(one.measured for one in found if (one.node, one.gate) == (name, gate))


def test_a_ring_of_four_says_both_ways_out() -> None:
    """A switch, or an NCCL built for rings with the floor that says so."""
    case = json.loads((CASES[0].parent / "ring_of_four.json").read_text())
    hint = judged(case)[0].hint
    assert "switch" in hint
    assert "floors.ring_nodes to 4" in hint
