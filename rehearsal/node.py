"""One practice node as its own commands see it: the hidden state in `state.json`, what has changed since, the page cache."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from rehearsal.traits import Traits

_SLOW_GB_S = 70.0  # model.GEMV_SLOW_GB_S; importing it would cost each command of a node more than its work
_SMALL = ((4200, 4096), (2200, 2048), (1200, 1024), (600, 512), (0, 256))


class Rail(NamedTuple):
    """One fabric interface as its node has it; the defaults are a healthy node's."""

    interface: str
    address: str
    hca: str
    mtu: int
    named: str = ""
    """What the inventory calls the interface, where that is not its name."""
    prefix: int = 24
    told_mtu: int = 0
    """RoCE's MTU; 0 is the largest that fits into the port's."""
    path_mtu: int = 9216
    gid_index: int = 3
    speed_mbit: int = 200_000
    link_gbit: float = 92.0
    busbw_gb_s: float = 11.85
    is_up: bool = True

    @property
    def roce_mtu(self) -> int:
        """RoCE's active MTU: an InfiniBand size, and headers must fit beside it (4200 bytes for 4096, reported)."""
        return self.told_mtu or next(size for least, size in _SMALL if self.mtu >= least)

    def reaches(self, address: str) -> bool:
        """Whether an address lies in this interface's subnet."""
        shift = 32 - self.prefix
        return _number(self.address) >> shift == _number(address) >> shift


class Peer(NamedTuple):
    """A node of the cluster as its neighbours reach it."""

    name: str
    management: str
    rails: tuple[Rail, ...]


class Changes(NamedTuple):
    """What commands have done to a node since it was raised."""

    compacted: bool = False
    mtu: dict[str, int] = {}  # noqa: RUF012 - never written to: a change makes a new value
    """By interface."""
    sysctls: dict[str, str] = {}  # noqa: RUF012 - as above
    folders: tuple[str, ...] = ()
    """Bind sources that docker made, empty."""
    stopped: dict[str, tuple[int, str]] = {}  # noqa: RUF012 - as above
    """Old containers that were stopped: exit code and time."""
    removed: tuple[str, ...] = ()
    """Old containers that were removed."""
    slowed: bool = False
    """Whether it fell into the slow state since; only raising it anew gets it out."""
    images: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - as above
    """Images that were built or loaded here, by reference: what `docker_image.image` shows of them instead of the traits."""


class Node(NamedTuple):
    """A node's hidden state; every face answers from it."""

    root: Path
    name: str
    rank: int
    pace: float
    token: str
    python: str
    traits: "Traits"
    peers: tuple[Peer, ...]
    """All nodes of the cluster in rank order, this one among them."""
    engine: str = ""
    """Folder of a real engine's commands, which a rank's container then runs as they stand; empty for the practice engine."""

    @property
    def self(self) -> Peer:
        """This node among its peers."""
        return self.peers[self.rank]

    @property
    def gemv_gb_s(self) -> float:
        """What the GEMV probe sees, and what the served step time follows."""
        slowed = changes(self.root).slowed
        return min(self.traits.gemv_gb_s, _SLOW_GB_S) if slowed else self.traits.gemv_gb_s

    @property
    def killer(self) -> str:
        """Command line of a process that ends others when memory is low; empty for none."""
        return self.traits.killer

    @property
    def rank_fault(self) -> str:
        """What goes wrong with a rank on this node; the names are those of `traits.RankFault`."""
        return self.traits.rank_fault

    @property
    def serve_fault(self) -> str:
        """What goes wrong with a line that serves; `traits.ServeFault`."""
        return self.traits.serve_fault

    @property
    def ssh_fault(self) -> str:
        """What keeps the controller out; `traits.SshFault`."""
        return self.traits.ssh_fault

    @property
    def sudo_fault(self) -> str:
        """What keeps it from root; `traits.SudoFault`."""
        return self.traits.sudo_fault


def read(root: Path) -> Node:
    """Read a node's state, with the MTUs that were set since on it and its peers."""
    raw: dict[str, Any] = read_json(root / "state.json")
    traits = shaped(raw["traits"])
    peers = tuple(
        Peer(name, management, _rails(root.parent / name, rails)) for name, management, rails in raw["peers"]
    )
    told = (raw["name"], raw["rank"], raw["pace"], raw["token"], raw["python"])
    return Node(root, *told, traits, peers, raw["engine"])


def _rails(folder: Path, raw: list[list[Any]]) -> tuple[Rail, ...]:
    raised = changes(folder).mtu
    rails = (Rail(*rail) for rail in raw)
    return tuple(rail._replace(mtu=raised.get(rail.interface, rail.mtu)) for rail in rails)


def shaped(plain: dict[str, Any]) -> "Traits":
    """Return traits as commands read them.

    Note: the dataclass itself would cost a command more than all of its work; this has its fields and nothing else.
    """
    return cast("Traits", _shaped(plain))


def _shaped(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{key: _shaped(one) for key, one in value.items()})
    return tuple(map(_shaped, value)) if isinstance(value, (list, tuple)) else value


def write(node: Node) -> None:
    """Write a node's state; used when the cluster is raised."""
    told = {key: value for key, value in node._asdict().items() if key != "root"}
    write_json(node.root / "state.json", told)


def changes(root: Path) -> Changes:
    """Return what commands have done to a node."""
    try:
        raw = read_json(root / "changed.json")
    except FileNotFoundError:
        return Changes()
    raw["folders"], raw["removed"] = tuple(raw["folders"]), tuple(raw["removed"])
    raw["stopped"] = {name: (code, at) for name, (code, at) in raw["stopped"].items()}
    return Changes(**raw)


def change(root: Path, how: Callable[[Changes], Changes]) -> None:
    """Change a node, one command at a time."""
    with (root / "changing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_json(root / "changed.json", how(changes(root))._asdict())


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
    fresh.write_text(json.dumps(value, default=vars), encoding="utf-8")
    fresh.replace(path)


def _number(address: str) -> int:
    high, upper, lower, low = map(int, address.split("."))
    return high << 24 | upper << 16 | lower << 8 | low
