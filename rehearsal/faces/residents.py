"""Who is on a practice node: its own few services, what its traits add, and the ranks. ps, ss, nvidia-smi and the memory agree."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rehearsal import containers
from rehearsal.faces import standing
from rehearsal.faces.standing import Shown
from rehearsal.node import Node, read_json

_UPTIME_S = 4 * 86_400
_USER = "spark"
_WILDCARD = ("0.0.0.0", "*", "[::]")  # noqa: S104 - what listens everywhere is one of the faults


class Task(NamedTuple):
    """A process with what it holds and where it listens."""

    pid: int
    ppid: int
    user: str
    age_s: int
    rss_kib: int
    args: str
    gpu_mib: int = 0
    """Above 0 it is a compute process."""
    gpu_name: str = ""
    is_told: bool = True
    """Whether nvidia-smi says how much it holds."""
    is_busy: bool = False
    listens: tuple[str, ...] = ()
    """`ADDRESS:PORT`."""


class Held(NamedTuple):
    """What processes hold beyond a fresh node's own, in MiB."""

    gpu: int
    host: int


def tasks(node: Node) -> tuple[Task, ...]:
    """Return the node's processes by pid."""
    found = [*_services(node), *_foreign(node), *_contained(node)]
    return tuple(sorted(found, key=lambda task: task.pid))


def held(node: Node) -> Held:
    """Return what ranks, old containers and foreign processes hold together."""
    ranks = containers.load(node.root)
    old = standing.old(node)
    foreign = node.traits.residents
    gpu = sum(one.gpu_mib for one in old) + round(1024 * sum(one.gpu_gib for one in foreign))
    host = sum(one.host_mib for one in old) + round(1024 * sum(one.host_gib for one in foreign))
    return Held(ranks.gpu_mib + gpu, ranks.host_mib + host)


def is_wildcard(listening: str) -> bool:
    """Whether a listening socket is bound to every address."""
    return listening.rpartition(":")[0] in _WILDCARD


def ports(home: Path) -> dict[str, int]:
    """Return the line's ports by name, `api` and `master`; none where the folder is no practice cluster's."""
    try:
        found: dict[str, int] = read_json(home / "ports.json")
    except FileNotFoundError:
        return {}
    return found


def _services(node: Node) -> list[Task]:
    own = [
        Task(1, 0, "root", _UPTIME_S, 13_440, "/sbin/init splash"),
        Task(2, 0, "root", _UPTIME_S, 0, "[kthreadd]"),
        Task(
            900, 1, "root", _UPTIME_S, 8_196, "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups", listens=("0.0.0.0:22", "[::]:22")
        ),
        Task(1187, 1, "root", _UPTIME_S, 88_320, "/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock"),
        Task(1204, 1, "root", _UPTIME_S, 52_108, "/usr/bin/containerd"),
    ]  # fmt: skip
    if node.killer:
        own.append(Task(912, 1, "root", _UPTIME_S, 2_304, node.killer))
    return own


def _foreign(node: Node) -> list[Task]:
    traits = node.traits
    found = [
        Task(
            pid=24_100 + index,
            ppid=1,
            user=_USER,
            age_s=86_400,
            rss_kib=max(4_096, round(one.host_gib * 1024**2)),
            args=one.args,
            gpu_mib=round(one.gpu_gib * 1024),
            gpu_name=one.args.split()[0],
            is_told=one.told,
            is_busy=one.busy,
        )
        for index, one in enumerate(traits.residents)
    ]
    for index, told in enumerate(traits.listeners):
        where, _, program = told.partition(" ")
        found.append(Task(25_300 + index, 1, _USER, 3_600, 61_440, program, listens=(where,)))
    port = ports(node.root.parent).get(traits.taken_port)
    if port:
        listens = (f"0.0.0.0:{port}",)
        found.append(Task(25_400, 1, _USER, 7_200, 22_528, f"python3 -m http.server {port}", listens=listens))
    return found


def _contained(node: Node) -> list[Task]:
    return [_rank(node, one) for one in standing.every(node) if one.is_running]


def _rank(node: Node, one: Shown) -> Task:
    """Return a container's process; a rank calls itself by another name once it has begun to load."""
    status = one.told.status()
    words = one.told.argv
    name = status.process_name
    if one.gpu_mib:
        name = f"VLLM::Worker_TP{one.told.labels.get('sparkctl.rank', '0')}"
    return Task(
        pid=one.pid,
        ppid=1204,
        user="root",
        age_s=one.age_s,
        rss_kib=max(65_536, (status.host_mib + one.host_mib) * 1024),
        args=name or " ".join((*(one.told.entrypoint or ("vllm",)), *words)),
        gpu_mib=status.gpu_mib + one.gpu_mib,
        gpu_name=name,
        is_busy=status.running > 0,
        listens=_serves(node, one),
    )


def _serves(node: Node, one: Shown) -> tuple[str, ...]:
    """Return where a container listens: a head at the API's address and at the rendezvous."""
    words = one.told.argv
    if one.is_old:
        known = ports(node.root.parent)
        is_head = one.told.labels.get("sparkctl.rank") == "0" and known
        address = node.self.rails[0].address
        return (f"{address}:{known['api']}", f"*:{known['master']}") if is_head else ()
    if _after(words, "--node-rank") not in {"", "0"} or not _after(words, "--master-port"):
        return ()
    api = f"{_after(words, '--host') or _WILDCARD[0]}:{_after(words, '--port') or '8000'}"
    return (api, f"{_after(words, '--master-addr')}:{_after(words, '--master-port')}")


def _after(words: tuple[str, ...], flag: str) -> str:
    return next((value for word, value in pairwise(words) if word == flag), "")
