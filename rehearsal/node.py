"""One practice node as its own commands see it: the hidden state in `state.json`, the page cache, the clock's pace."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple


class Rail(NamedTuple):
    """One fabric interface."""

    interface: str
    address: str
    hca: str
    mtu: int


class Peer(NamedTuple):
    """A node of the cluster as its neighbours reach it."""

    name: str
    management: str
    rails: tuple[Rail, ...]


class Node(NamedTuple):
    """A node's hidden state; every face answers from it."""

    root: Path
    name: str
    rank: int
    gemv_gb_s: float
    kernel: str
    driver: str
    images: tuple[str, ...]
    pace: float
    token: str
    python: str
    peers: tuple[Peer, ...]
    """All nodes of the cluster in rank order, this one among them."""

    @property
    def self(self) -> Peer:
        """This node among its peers."""
        return self.peers[self.rank]


def read(root: Path) -> Node:
    """Read a node's state."""
    raw: dict[str, Any] = read_json(root / "state.json")
    peers = tuple(
        Peer(name, management, tuple(Rail(*rail) for rail in rails))
        for name, management, rails in raw["peers"]
    )
    return Node(
        root=root,
        name=raw["name"],
        rank=raw["rank"],
        gemv_gb_s=raw["gemv_gb_s"],
        kernel=raw["kernel"],
        driver=raw["driver"],
        images=tuple(raw["images"]),
        pace=raw["pace"],
        token=raw["token"],
        python=raw["python"],
        peers=peers,
    )


def write(node: Node) -> None:
    """Write a node's state; used when the cluster is raised."""
    write_json(
        node.root / "state.json", {key: value for key, value in node._asdict().items() if key != "root"}
    )


def page_cache_kib(root: Path) -> int:
    """Return what files keep in the node's simulated page cache beyond a fresh node's."""
    size: int = read_json(root / "cache.json")["kib"]
    return size


def keep_page_cache(root: Path, kib: int) -> None:
    """Set the simulated page cache; 0 is what drop_caches leaves."""
    write_json(root / "cache.json", {"kib": kib})


def read_json(path: Path) -> Any:
    """Read one of the cluster's own files."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: object) -> None:
    """Write one of the cluster's own files whole: a reader sees the old text or the new, never half of it."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(value), encoding="utf-8")
    fresh.replace(path)
