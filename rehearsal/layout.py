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

LINES = ("A", "B")
NODES = ("spark-a0", "spark-a1", "spark-a2", "spark-a3")
"""Those of line A, which every cluster has."""
USER = "spark"

# Management and fabric are told apart, as on real nodes; all of 127/8 answers on this machine.
_FIRST_NETS = (
    77,
    87,
)  # of each line; ten follow one another: management, two rails over a switch, four cables of a ring
_SWITCHED = (("enp1s0f0np0", "rocep1s0f0"), ("enP2p1s0f0np0", "roceP2p1s0f0"))
_RINGED = (("enp1s0f0np0", "rocep1s0f0"), ("enp1s0f1np1", "rocep1s0f1"))

_NO_PYTHON = "/opt/python/3.13/bin/python3"  # what the inventory says of a node that has no such file

_PORTS = (20000, 32000)  # below the range that outgoing connections take theirs from


def names(line: str) -> tuple[str, ...]:
    """Return the names of a line's nodes, by rank."""
    return tuple(f"spark-{line.lower()}{rank}" for rank in range(len(NODES)))


def folder(home: Path, line: str) -> Path:
    """Return where a line's nodes lie, beside what its ranks share: the first line's in the cluster's home."""
    return home if line == LINES[0] else home / f"line-{line.lower()}"


def roots(home: Path) -> tuple[Path, ...]:
    """Return the folders of all nodes that lie in a home, line by line and by rank."""
    every = (folder(home, line) / name for line in LINES for name in names(line))
    return tuple(root for root in every if root.is_dir())


def peers(scenario: Scenario, line: str = LINES[0]) -> tuple[Peer, ...]:
    """Return a line's four nodes as they reach one another."""
    return tuple(
        Peer(name, f"{_net(line, 0)}.{index + 1}", _rails(line, index, _traits(scenario, name)))
        for index, name in enumerate(names(line))
    )


def _net(line: str, place: int) -> str:
    return f"127.0.{_FIRST_NETS[LINES.index(line)] + place}"


def _traits(scenario: Scenario, name: str) -> Traits:
    return scenario.nodes.get(name, Traits())


def _rails(line: str, index: int, traits: Traits) -> tuple[Rail, ...]:
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
        for at, (named, hca, address) in enumerate(_wiring(line, index, traits))
    )


def _wiring(line: str, index: int, traits: Traits) -> tuple[tuple[str, str, str], ...]:
    """Return each rail's interface, HCA and address: one net a rail over a switch, one net a cable in a ring."""
    if traits.cabling == "switch":
        return tuple(
            (named, hca, f"{_net(line, place)}.{index + 1}")
            for place, (named, hca) in enumerate(_SWITCHED, start=1)
        )
    cables = tuple(_net(line, 3 + place) for place in range(len(NODES)))
    onward, back = f"{cables[index]}.1", f"{cables[index - 1]}.2"
    return tuple((named, hca, address) for (named, hca), address in zip(_RINGED, (onward, back), strict=True))


def clear(home: Path) -> None:
    """Remove what an earlier cluster left in its home; nothing else in that folder is touched."""
    for root in (*roots(home), *(folder(home, line) for line in LINES[1:]), home / "keys"):
        shutil.rmtree(root, ignore_errors=True)
    for name in ("cluster.json", "law.json", "boots.json", "ports.json", "inventory.yml", "daemon.log"):
        (home / name).unlink(missing_ok=True)


def furnish(home: Path, scenario: Scenario, token: str) -> None:
    """Write the law that the ranks of each line serve by, and a folder for each node with its commands and its state."""
    for line in scenario.lines:
        _furnish(folder(home, line), scenario.of_line(line), line, token)


def _furnish(home: Path, scenario: Scenario, line: str, token: str) -> None:
    home.mkdir(exist_ok=True)
    write_json(home / "law.json", edge.plain(scenario) | {"levers": edge.plain(levers(scenario))})
    write_json(home / "boots.json", 0)
    around = peers(scenario, line)
    served = around[0].rails[0].address
    api = free_port(served)
    write_json(home / "ports.json", {"api": api, "master": free_port(served, (api,))})
    for index, name in enumerate(names(line)):
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
    served = read_json(home / "cluster.json")["recipe"]
    groups: dict[str, dict[str, object]] = {}
    for line in LINES:
        own = folder(home, line)
        hosts = {
            node.name: _host(node, port)
            for node, port in zip(nodes, ssh_ports, strict=True)
            if node.root.parent == own
        }
        if hosts:
            ports = read_json(own / "ports.json")
            told = {"recipe": served, "api_port": ports["api"], "master_port": ports["master"]}
            groups[f"line_{line.lower()}"] = {"vars": told, "hosts": hosts}
    everything = {
        "schema": 1,
        "ansible_user": USER,
        "ansible_python_interpreter": python(),
        "ansible_ssh_private_key_file": str(home / "keys" / "user"),
        "known_hosts": str(home / "keys" / "known_hosts"),
        "practice": True,
    }
    tree = {"all": {"vars": everything, "children": groups}}
    return yaml.safe_dump(json.loads(json.dumps(tree)), sort_keys=False, default_flow_style=None, width=110)


def _host(node: Node, ssh_port: int) -> dict[str, object]:
    host: dict[str, object] = {
        "rank": node.rank,
        "ansible_host": node.self.management,
        "ansible_port": ssh_port,
        "fabric": [
            {"interface": rail.named or rail.interface, "address": rail.address, "hca": rail.hca}
            for rail in node.self.rails
        ],
    }
    if node.ssh_fault == "no-python":
        host["ansible_python_interpreter"] = _NO_PYTHON
    return host
