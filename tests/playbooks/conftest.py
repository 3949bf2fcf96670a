"""Four nodes that Ansible reaches without SSH, each with its own PATH and a docker that keeps its state in files."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible.module_utils
import ansible_runner
import pytest

ROOT = Path(__file__).parents[2]
PLAYBOOKS = ROOT / "playbooks"

# Ansible lays module_utils beside its own on the node; for an import in this process we do the same.
ansible.module_utils.__path__.append(str(PLAYBOOKS / "module_utils"))
sys.path.append(str(PLAYBOOKS / "library"))

ANSWERS = {"runner_on_ok", "runner_on_failed", "runner_on_unreachable"}

MEMINFO = """MemTotal:       127600000 kB
MemFree:         {free} kB
MemAvailable:   120000000 kB
Cached:          {cached} kB
Shmem:             200000 kB
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as a folder: `bin` is the front of its PATH."""

    name: str
    home: Path

    @property
    def bin(self) -> Path:
        """Where its tools are."""
        return self.home / "bin"

    def tool(self, name: str, script: str) -> None:
        """Put a shell script on the node's PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def calls(self) -> list[str]:
        """Return the docker commands that were run here."""
        log = self.bin / "calls"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def containers(self) -> set[str]:
        """Return the names of the containers that exist here."""
        kept = self.bin / "containers"
        return {one.name for one in kept.iterdir() if one.name != ".new"} if kept.exists() else set()

    def born(self, container: str) -> float:
        """Return when a container was started, in seconds since the epoch."""
        return float((self.bin / "containers" / container / "born").read_text(encoding="utf-8"))


def make_node(home: Path, name: str) -> Node:
    """Make a node with a docker, a sudo that empties its page cache, and memory to read."""
    node = Node(name=name, home=home / name)
    node.bin.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("docker"), node.bin / "docker")
    memory = node.home / "meminfo"
    memory.write_text(MEMINFO.format(free=90_000_000, cached=30_200_000), encoding="utf-8")
    settled = node.home / "settled"
    settled.write_text(MEMINFO.format(free=119_000_000, cached=700_000), encoding="utf-8")
    for blocks in ("buddyinfo", "whole"):
        (node.home / blocks).write_text("Node 0, zone   Normal 9 9 9 9 9 9 9 9 9 9 28000\n", encoding="utf-8")
    told = f"/proc/meminfo) exec /bin/cat {memory} ;; /proc/buddyinfo) exec /bin/cat {node.home}/buddyinfo ;;"
    node.tool("cat", f'case $1 in {told} esac\nexec /bin/cat "$@"')
    node.tool("getconf", "echo 4096")
    node.tool("sudo", f"cp {settled} {memory}")
    # Ansible runs modules with this interpreter, which is where a node's PATH can be its own without SSH.
    node.tool("python3", f'PATH={node.bin}:$PATH exec {sys.executable} "$@"')
    return node


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run of a playbook: its exit code, its text, and every host's result by task."""

    rc: int
    text: str
    results: Mapping[str, Mapping[str, Mapping[str, object]]]

    def changed(self) -> int:
        """Count the answers that report a change."""
        return sum(bool(one.get("changed")) for hosts in self.results.values() for one in hosts.values())


Play = Callable[..., Ran]


def literal(value: object) -> object:
    """Mark every text as one that Ansible must not read as a template: docker's `{{json .}}` is one of ours."""
    match value:
        case str():
            return {"__ansible_unsafe": value}
        case Mapping():
            return {name: literal(one) for name, one in value.items()}
        case list() | tuple():
            return [literal(one) for one in value]
        case _:
            return value


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Node, ...]:
    """Give spark-a0 to spark-a3."""
    return tuple(make_node(tmp_path, f"spark-a{rank}") for rank in range(4))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Give one node whose PATH is this process's, for a module called as a function."""
    made = make_node(tmp_path, "spark-a0")
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    return made


@pytest.fixture
def play(tmp_path: Path, nodes: Sequence[Node]) -> Play:
    """Give a function that runs a playbook on the nodes: `play("stop", {...}, "--check")`."""
    inventory = tmp_path / "inventory.yml"
    hosts = {
        node.name: {"ansible_connection": "local", "ansible_python_interpreter": str(node.bin / "python3")}
        for node in nodes
    }
    inventory.write_text(json.dumps({"line_a": {"hosts": hosts}}), encoding="utf-8")

    def run(playbook: str, variables: Mapping[str, object], flags: str = "") -> Ran:
        results: dict[str, dict[str, Mapping[str, object]]] = {}

        def take(event: Mapping[str, Any]) -> bool:
            if event["event"] in ANSWERS:
                data = event["event_data"]
                results.setdefault(data["task"], {})[data["host"]] = data["res"]
            return True

        with tempfile.TemporaryDirectory(prefix="sparkctl-test-") as folder:
            extravars = Path(folder) / "env" / "extravars"
            extravars.parent.mkdir()
            extravars.write_text(json.dumps(literal(variables)), encoding="utf-8")
            done = ansible_runner.run(
                private_data_dir=folder,
                playbook=str(PLAYBOOKS / f"{playbook}.yml"),
                inventory=str(inventory),
                cmdline=flags or None,
                envvars={
                    "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                },
                event_handler=take,
                quiet=True,
                timeout=60,
            )
            with done.stdout as said:
                text = said.read()
            if not results:
                pytest.fail(f"{playbook}.yml answered nothing:\n{text}")
            return Ran(rc=done.rc, text=text, results=results)

    return run
