"""What lies in a practice cluster's home: node folders with their commands, keys, and the inventory."""

import json
import random
import shlex
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from rehearsal import face, stub
from rehearsal.node import Node, Peer, Rail, keep_page_cache, read_json, shaped, write, write_json
from rehearsal.scenario import Scenario, levers
from rehearsal.traits import Traits
from sparkctl import edge

NODES = ("spark-a0", "spark-a1", "spark-a2", "spark-a3")
USER = "spark"

# Management and fabric are told apart, as on real nodes; all of 127/8 answers on this machine.
_MANAGEMENT = "127.0.77"
_SWITCHED = (("enp1s0f0np0", "rocep1s0f0"), ("enP2p1s0f0np0", "roceP2p1s0f0"))
_SWITCHED_NETS = ("127.0.78", "127.0.79")
_RINGED = (("enp1s0f0np0", "rocep1s0f0"), ("enp1s0f1np1", "rocep1s0f1"))
_RINGED_NETS = tuple(f"127.0.{80 + index}" for index in range(len(NODES)))

_NO_PYTHON = "/opt/python/3.13/bin/python3"  # what the inventory says of a node that has no such file

_PORTS = (20000, 32000)  # below the range that outgoing connections take theirs from


def peers(scenario: Scenario) -> tuple[Peer, ...]:
    """Return the four nodes as they reach one another."""
    return tuple(
        Peer(name, f"{_MANAGEMENT}.{index + 1}", _rails(index, _traits(scenario, name)))
        for index, name in enumerate(NODES)
    )


def _traits(scenario: Scenario, name: str) -> Traits:
    return scenario.nodes.get(name, Traits())


def _rails(index: int, traits: Traits) -> tuple[Rail, ...]:
    return tuple(
        Rail(
            interface=traits.interfaces[at] if traits.interfaces else named,
            named=named,
            address=address,
            hca=hca,
            prefix=traits.prefixes[at],
            mtu=traits.mtu[at],
            told_mtu=traits.active_mtu[at],
            path_mtu=traits.path_mtu[at],
            gid_index=traits.gid_index[at],
            speed_mbit=traits.speed_mbit[at],
            link_gbit=traits.link_gbit[at],
            busbw_gb_s=traits.busbw_gb_s[at],
            is_up=not traits.unplugged[at],
        )
        for at, (named, hca, address) in enumerate(_wiring(index, traits))
    )


def _wiring(index: int, traits: Traits) -> tuple[tuple[str, str, str], ...]:
    """Return each rail's interface, HCA and address: one net a rail over a switch, one net a cable in a ring."""
    if traits.cabling == "switch":
        return tuple(
            (named, hca, f"{net}.{index + 1}")
            for (named, hca), net in zip(_SWITCHED, _SWITCHED_NETS, strict=True)
        )
    onward, back = f"{_RINGED_NETS[index]}.1", f"{_RINGED_NETS[index - 1]}.2"
    return tuple((named, hca, address) for (named, hca), address in zip(_RINGED, (onward, back), strict=True))


def clear(home: Path) -> None:
    """Remove what an earlier cluster left in its home; nothing else in that folder is touched."""
    for name in (*NODES, "keys"):
        shutil.rmtree(home / name, ignore_errors=True)
    for name in ("cluster.json", "law.json", "boots.json", "ports.json", "inventory.yml", "daemon.log"):
        (home / name).unlink(missing_ok=True)


def furnish(home: Path, scenario: Scenario, token: str) -> None:
    """Write the law that the ranks serve by, and a folder for each node with its commands and its state."""
    write_json(home / "law.json", edge.plain(scenario) | {"levers": edge.plain(levers(scenario))})
    write_json(home / "boots.json", 0)
    around = peers(scenario)
    served = around[0].rails[0].address
    api = free_port(served)
    write_json(home / "ports.json", {"api": api, "master": free_port(served, (api,))})
    for index, name in enumerate(NODES):
        traits = _traits(scenario, name)
        node = Node(
            root=home / name,
            name=name,
            rank=index,
            pace=scenario.pace,
            token=token,
            python=python(),
            traits=shaped(edge.plain(traits)),
            peers=around,
        )
        for folder in ("bin", "home", "tmp", "containers"):
            (node.root / folder).mkdir(parents=True)
        write(node)
        keep_page_cache(node.root, int(traits.cached_gib * 1024**2))
        _write_commands(node)


def _write_commands(node: Node) -> None:
    script = Path(stub.__file__).resolve()
    for name in face.commands():
        # -S and -I: no site packages and no PYTHON* variables; a command answers in about 10 ms.
        words = [node.python, "-S", "-I", str(script), node.token, str(node.root), name]
        answer = f'exec {shlex.join(words)} "$@"'
        if name in face.SEEN_IN:
            seen = "|".join(f"*{shlex.quote(part)}*" for part in face.SEEN_IN[name])
            # Other uses must cost nothing: Ansible finds some of these on the PATH too.
            answer = f'case "$*" in\n{seen}) {answer} ;;\nesac\nexec {shlex.quote(_tool(node, name))} "$@"'
        path = node.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
        path.chmod(0o755)


def _tool(node: Node, name: str) -> str:
    """Return the machine's own tool of that name."""
    return (
        node.python if name == "python3" else shutil.which(name, path="/usr/bin:/bin") or f"/usr/bin/{name}"
    )


def python() -> str:
    """Return the interpreter for the node's side: the one under the virtual environment, which starts faster."""
    base: str = getattr(sys, "_base_executable", None) or sys.executable
    return base


def free_port(address: str, taken: tuple[int, ...] = ()) -> int:
    """Return a port that nothing listens on at that address; drawn at random so that clusters stay apart."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(*_PORTS)
        with socket.socket() as trial:
            try:
                trial.bind((address, port))
            except OSError:
                continue
        if port not in taken:
            return port


def recipe(scenario: Scenario) -> str:
    """Return what the inventory calls the recipe that a scenario's line serves."""
    if not scenario.recipe:
        return "v41-flash-exl3-tp4"
    return str(Path(__file__).resolve().parent / "recipes" / f"{scenario.recipe}.yml")


def inventory(home: Path, nodes: Sequence[Node], ssh_ports: tuple[int, ...]) -> str:
    """Return the inventory text."""
    around = [node.self for node in nodes]
    ports = read_json(home / "ports.json")
    hosts: dict[str, dict[str, object]] = {
        peer.name: {
            "rank": rank,
            "ansible_host": peer.management,
            "ansible_port": port,
            "fabric": [
                {"interface": rail.named or rail.interface, "address": rail.address, "hca": rail.hca}
                for rail in peer.rails
            ],
        }
        for rank, (peer, port) in enumerate(zip(around, ssh_ports, strict=True))
    }
    for node in nodes:
        if node.ssh_fault == "no-python":
            hosts[node.name]["ansible_python_interpreter"] = _NO_PYTHON
    served = read_json(home / "cluster.json")["recipe"]
    line = {"recipe": served, "api_port": ports["api"], "master_port": ports["master"]}
    everything = {
        "schema": 1,
        "ansible_user": USER,
        "ansible_python_interpreter": python(),
        "ansible_ssh_private_key_file": str(home / "keys" / "user"),
        "known_hosts": str(home / "keys" / "known_hosts"),
        "practice": True,
    }
    tree = {"all": {"vars": everything, "children": {"line_a": {"vars": line, "hosts": hosts}}}}
    return yaml.safe_dump(json.loads(json.dumps(tree)), sort_keys=False, default_flow_style=None, width=110)
