"""What lies in a host's folder: the practice faces of what only a GB10 has, beside the machine's real tools."""

import compileall
import shutil
from pathlib import Path

import rehearsal
from rehearsal import layout, node
from rehearsal.hosts import machine
from rehearsal.node import Node, Peer
from rehearsal.scenario import named

REAL = frozenset({"hostname", "ip", "ls", "ping", "ps", "python3", "ss"})
"""Commands that answer from the host's own namespaces; faking them would fake what the hosts are for."""

_PACE = 1.0  # a ping takes its real time, so a face does too


def furnish(home: Path, peers: tuple[Peer, ...], engine: str = "") -> None:
    """Make a folder a host: a healthy practice node's, with the real tools in place of some faces.

    `engine` is the folder of a real engine's commands, which ranks then run.
    """
    # A host cannot write compiled code beside the package, and compiling costs a face more than its answer.
    compileall.compile_dir(Path(rehearsal.__file__).parent, quiet=2)
    pattern = home / "pattern"
    pattern.mkdir()
    layout.furnish(pattern, named("healthy"), "no-token")
    model = pattern / layout.NODES[0]
    for shared in pattern.glob("*.json"):
        shutil.copy(shared, home)
    for rank, peer in enumerate(peers):
        folder = home / peer.name
        shutil.copytree(model, folder)
        told = node.read(model)._replace(
            root=folder, name=peer.name, rank=rank, pace=_PACE, peers=peers, engine=engine
        )
        node.write(told)
        for tool in (folder / "bin").iterdir():
            _refit(tool, model, folder)
    shutil.rmtree(pattern)


def wire(folder: Path, rail: int, *, mtu: int, is_up: bool) -> None:
    """Let the faces know how a rail is: what ibv_devinfo shows follows from it."""
    told: Node = node.read(folder)
    own = told.self
    rails = tuple(
        one._replace(mtu=mtu, is_up=is_up) if at == rail else one for at, one in enumerate(own.rails)
    )
    peers = tuple(one._replace(rails=rails) if one is own else one for one in told.peers)
    node.write(told._replace(peers=peers))


def _refit(tool: Path, model: Path, folder: Path) -> None:
    """Let a face copied from the model answer for this host, or put the real tool in its place.

    In its place, and not left to PATH: what sudo may run on a practice node is what lies in this folder.
    """
    if tool.name in REAL:
        real = layout.python() if tool.name == "python3" else shutil.which(tool.name, path=machine.PATH)
        tool.unlink()
        tool.symlink_to(real or f"/usr/bin/{tool.name}")
    else:
        text = tool.read_text(encoding="utf-8").replace(str(model), str(folder))
        tool.write_text(text, encoding="utf-8")
