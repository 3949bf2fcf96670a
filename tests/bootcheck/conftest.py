"""A healthy line of four nodes as probe.yml would bring it home, and a way to change what single probes said."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bootcheck.collect import facts
from bootcheck.facts import Bundle, NodeRecords, Record
from bootcheck.floors import Floors
from bootcheck.gates.gate import Scene
from bootcheck.probes import PROBES, Target
from sparkctl import inventory
from sparkctl.line import Line, Node

ROOT = Path(__file__).parents[2]
IMAGE = "sparkctl/vllm:1"

Patch = Mapping[str, Mapping[str, Mapping[str, Any]]]


@pytest.fixture(scope="session")
def line() -> Line:
    """Line A of the example inventory."""
    return inventory.read(ROOT / "inventory.example.yml").line("A")


@pytest.fixture
def scene(line: Line) -> Callable[[Patch], Scene]:
    """Return a maker of scenes: the healthy line with some probes of some nodes changed."""

    def make(patch: Patch) -> Scene:
        nodes = {node.name: _records(line, node, patch.get(node.name, {})) for node in line.nodes}
        return Scene(line=line, facts=facts(Bundle(nodes=nodes)), floors=Floors())

    return make


def _records(line: Line, node: Node, patch: Mapping[str, Mapping[str, Any]]) -> NodeRecords:
    if "unreachable" in patch:
        return NodeRecords(**patch["unreachable"])
    peers = tuple(rail.address for other in line.nodes if other is not node for rail in other.rails)
    target = Target(line=line.name, image=IMAGE, peer_addresses=peers, mtu=9000)
    return NodeRecords(
        probes=tuple(
            dataclasses.replace(_record(node, probe.name, argv), **patch.get(probe.name, {}))
            for probe in PROBES
            for argv in probe.argvs(target)
        )
    )


def _record(node: Node, probe: str, argv: tuple[str, ...]) -> Record:
    stdout = {
        "memory": _case("memory", "healthy"),
        "kernel": _case("kernel", "gb10"),
        "gpu": _case("gpu", "idle"),
        "gpu-processes": _case("gpu-processes", "none"),
        "links": json.dumps([_link(rail.interface, rail.address) for rail in node.rails]),
        "jumbo-ping": "2 packets transmitted, 2 received, 0% packet loss, time 201ms",
        "image": _case("image", "present"),
        "containers": "",
        "gemv": _case("gemv", "fast"),
    }[probe]
    return Record(probe=probe, argv=argv, rc=0, stdout=stdout, stderr="", seconds=0.1)


def _case(probe: str, name: str) -> str:
    case = json.loads((Path(__file__).parent / "cases" / probe / f"{name}.json").read_text())
    return str(case["stdout"])


def _link(interface: str, address: str) -> dict[str, Any]:
    return {
        "ifname": interface,
        "mtu": 9000,
        "flags": ["UP", "LOWER_UP"],
        "addr_info": [{"family": "inet", "local": address}],
    }
