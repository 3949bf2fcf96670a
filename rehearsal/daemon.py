"""The process behind a practice cluster: an SSH server for each node, the reaping of ended ranks, and the end when idle."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from ctypes import CDLL
from pathlib import Path

import asyncssh

from rehearsal import containers, forkserver, layout, processes
from rehearsal.node import Node, read, read_json, write_json
from rehearsal.sshd import Watch, listen

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_TICK_S = 1.0
_KEY = "ssh-ed25519"


def main(argv: list[str]) -> int:
    """Serve the cluster of one home until told to end or idle for that many seconds."""
    home, idle_s = Path(argv[0]), float(argv[1])
    with contextlib.suppress(OSError):
        CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # ended ranks become ours to reap
    _say("starting")
    try:
        asyncio.run(_serve(home, idle_s))
    except (OSError, asyncssh.Error) as fault:
        _say(f"ended by a fault: {fault}")
        return 1
    return 0


async def _serve(home: Path, idle_s: float) -> None:
    nodes = [read(root) for root in layout.roots(home)]
    _make_keys(home / "keys", nodes)
    watch = Watch()
    doors = [await _open(node, home / "keys", watch) for node in nodes]
    ports = tuple(_port(door) for door in doors)
    _write_known_hosts(home / "keys", nodes, ports)
    (home / "inventory.yml").write_text(layout.inventory(home, nodes, ports), encoding="utf-8")
    answering = [
        (node.self.management, port)
        for node, door, port in zip(nodes, doors, ports, strict=True)
        if not isinstance(door, socket.socket)
    ]
    _load_faces(nodes[0])
    told = read_json(home / "cluster.json")
    write_json(home / "cluster.json", told | {"doors": answering, "daemon": processes.look(os.getpid())})
    _say(f"{len(answering)} nodes answer, on ports {', '.join(str(port) for _, port in answering)}")
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await _watch(nodes, watch, ended, idle_s)
    for door in doors:
        door.close()
    left = processes.end(processes.marked(nodes[0].token), 1.0)
    _say(f"ended; {len(left)} processes left")


def _load_faces(node: Node) -> None:
    """Start the fork server; until it listens, and where it cannot, every command loads its own face."""
    subprocess.Popen(
        [node.python, "-S", "-E", forkserver.__file__, node.token],
        stdin=subprocess.DEVNULL,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", processes.MARK: node.token},
        start_new_session=True,
    )


async def _open(node: Node, keys: Path, watch: Watch) -> asyncssh.SSHAcceptor | socket.socket:
    """Start a node's server; of one that refuses, only keep the port, so that nothing else comes to answer there."""
    if node.ssh_fault != "refused":
        return await listen(node, keys, watch)
    kept = socket.socket()
    kept.bind((node.self.management, 0))  # bound and not listening: the kernel refuses whoever connects
    return kept


def _port(door: asyncssh.SSHAcceptor | socket.socket) -> int:
    port: int = door.getsockname()[1] if isinstance(door, socket.socket) else door.get_port()
    return port


async def _watch(nodes: list[Node], watch: Watch, ended: asyncio.Event, idle_s: float) -> None:
    """Reap ended ranks; return when told to, or when nobody called and nothing ran for long."""
    used = time.monotonic()
    dead: set[int] = set()
    while not ended.is_set():
        dead = _reap(dead, watch.children)
        if watch.open or any(one.is_running() for node in nodes for one in containers.every(node.root)):
            used = time.monotonic()
        if time.monotonic() - used > idle_s:
            _say(f"idle for {idle_s:.0f} s")
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _TICK_S)


def _reap(seen: set[int], busy: set[int]) -> set[int]:
    """Reap dead children that nobody waits for, ranks that is, and return those seen for the first time.

    The SSH servers' own children are asyncio's to reap; only who lies dead for a whole tick is taken.
    """
    dead = _zombies() - busy
    for pid in dead & seen:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return dead - seen


def _zombies() -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] == "Z" and int(fields[1]) == os.getpid():
                found.add(int(entry.name))
    return found


def _make_keys(folder: Path, nodes: list[Node]) -> None:
    folder.mkdir(mode=0o700)
    user = asyncssh.generate_private_key(_KEY)
    user.write_private_key(str(folder / "user"))
    (folder / "user").chmod(0o600)
    user.write_public_key(str(folder / "authorized_keys"))
    for node in nodes:
        host = asyncssh.generate_private_key(_KEY)
        host.write_private_key(str(folder / node.name))
        (folder / node.name).chmod(0o600)
        host.write_public_key(str(folder / f"{node.name}.pub"))


def _write_known_hosts(folder: Path, nodes: list[Node], ports: tuple[int, ...]) -> None:
    lines = []
    for node, port in zip(nodes, ports, strict=True):
        public = (folder / f"{node.name}.pub").read_text(encoding="utf-8")
        if node.ssh_fault == "other-host-key":
            # What a controller remembers of a node that was installed anew.
            public = asyncssh.generate_private_key(_KEY).export_public_key().decode("ascii")
        kind, key = public.split()[:2]
        lines.append(f"[{node.self.management}]:{port} {kind} {key}\n")
    (folder / "known_hosts").write_text("".join(lines), encoding="utf-8")


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
