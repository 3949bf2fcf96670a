"""What lies in a practice cluster's home: node folders with their commands, keys, and the inventory."""

import json
import random
import shlex
import shutil
import socket
import sys
from pathlib import Path

import yaml

from rehearsal import face
from rehearsal.node import Node, Peer, Rail, keep_page_cache, write, write_json
from rehearsal.scenario import Scenario, Traits, levers
from sparkctl import edge

NODES = ("spark-a0", "spark-a1", "spark-a2", "spark-a3")
USER = "spark"

# Management and fabric are told apart, as on real nodes; all of 127/8 answers on this machine.
_MANAGEMENT = "127.0.77"
_RAILS = (("enp1s0f0np0", "127.0.78", "rocep1s0f0"), ("enP2p1s0f0np0", "127.0.79", "roceP2p1s0f0"))

_PORTS = (20000, 32000)  # below the range that outgoing connections take theirs from


def peers(scenario: Scenario) -> tuple[Peer, ...]:
    """Return the four nodes as they reach one another."""
    return tuple(
        Peer(
            name,
            f"{_MANAGEMENT}.{index + 1}",
            tuple(
                Rail(interface, f"{net}.{index + 1}", hca, mtu)
                for (interface, net, hca), mtu in zip(_RAILS, _traits(scenario, name).mtu, strict=True)
            ),
        )
        for index, name in enumerate(NODES)
    )


def _traits(scenario: Scenario, name: str) -> Traits:
    return scenario.nodes.get(name, Traits())


def clear(home: Path) -> None:
    """Remove what an earlier cluster left in its home; nothing else in that folder is touched."""
    for name in (*NODES, "keys"):
        shutil.rmtree(home / name, ignore_errors=True)
    for name in ("cluster.json", "law.json", "boots.json", "inventory.yml", "daemon.log"):
        (home / name).unlink(missing_ok=True)


def furnish(home: Path, scenario: Scenario, token: str) -> None:
    """Write the law that the ranks serve by, and a folder for each node with its commands and its state."""
    write_json(home / "law.json", edge.plain(scenario) | {"levers": edge.plain(levers(scenario))})
    write_json(home / "boots.json", 0)
    around = peers(scenario)
    for index, name in enumerate(NODES):
        traits = _traits(scenario, name)
        node = Node(
            root=home / name,
            name=name,
            rank=index,
            gemv_gb_s=traits.gemv_gb_s,
            kernel=traits.kernel,
            driver=traits.driver,
            images=traits.images,
            pace=scenario.pace,
            token=token,
            python=python(),
            peers=around,
        )
        for folder in ("bin", "home", "tmp", "containers"):
            (node.root / folder).mkdir(parents=True)
        write(node)
        keep_page_cache(node.root, int(traits.cached_gib * 1024**2))
        _write_commands(node)


def _write_commands(node: Node) -> None:
    script = Path(face.__file__).resolve()
    for name in face.commands():
        # -S and -E: no site packages and no PYTHON* variables; a command answers in about 30 ms.
        words = [node.python, "-S", "-E", str(script), str(node.root), name]
        path = node.root / "bin" / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    (node.root / "bin" / "python3").symlink_to(node.python)


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


def inventory(home: Path, around: tuple[Peer, ...], ssh_ports: tuple[int, ...]) -> str:
    """Return the inventory text; the ports for serving and for the rendezvous are chosen here."""
    served = around[0].rails[0].address
    api = free_port(served)
    hosts = {
        peer.name: {
            "rank": rank,
            "ansible_host": peer.management,
            "ansible_port": port,
            "fabric": [
                {"interface": rail.interface, "address": rail.address, "hca": rail.hca} for rail in peer.rails
            ],
        }
        for rank, (peer, port) in enumerate(zip(around, ssh_ports, strict=True))
    }
    line = {"recipe": "v41-flash-exl3-tp4", "api_port": api, "master_port": free_port(served, (api,))}
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
