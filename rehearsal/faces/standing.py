"""All containers of a practice node as docker shows them: those with a process behind them, and old ones of its traits."""

import time
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from rehearsal import containers
from rehearsal.containers import KILLED, Container, stamp
from rehearsal.node import Changes, Node, change, changes
from rehearsal.processes import is_alive

if TYPE_CHECKING:
    from rehearsal.traits import OldContainer

GPUS = {"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
"""What docker makes of `--gpus all`."""

_AGE_S = 20 * 3600
_PID = 21_990
_NEVER = "0001-01-01T00:00:00Z"
_BOOT = "b-earlier"


class Shown(NamedTuple):
    """A container with its state."""

    told: Container
    is_running: bool
    pid: int
    ending: tuple[int, str]
    """Exit code and time; 0 and never while it runs."""
    age_s: int
    restarts: int = 0
    gpu_mib: int = 0
    host_mib: int = 0
    is_old: bool = False


def every(node: Node) -> tuple[Shown, ...]:
    """Return the node's containers, newest first."""
    real = [shown(one) for one in containers.every(node.root)]
    return tuple(sorted((*real, *old(node)), key=lambda one: one.told.created, reverse=True))


def find(node: Node, name: str) -> Shown | None:
    """Return the container with that name, id or beginning of an id."""
    plain = name.removeprefix("/")
    there = every(node)
    named = [one for one in there if one.told.name == plain]
    return next(
        iter(named or [one for one in there if len(name) >= 4 and one.told.id.startswith(name)]), None
    )


def old(node: Node) -> tuple[Shown, ...]:
    """Return the containers that were there before and have not been removed."""
    if not node.traits.containers:
        return ()
    changed = changes(node.root)
    found = [_old(node, one, index, changed) for index, one in enumerate(node.traits.containers)]
    return tuple(one for one in found if one.told.name not in changed.removed)


def stop(node: Node, one: Shown, code: int) -> None:
    """Let an old container end with that code; one that has ended already is left alone."""
    if one.is_running:
        ended = {one.told.name: (code, stamp())}
        change(node.root, lambda now: now._replace(stopped={**now.stopped, **ended}))


def remove(node: Node, one: Shown) -> None:
    """Remove an old container."""
    change(node.root, lambda now: now._replace(removed=(*now.removed, one.told.name)))


def shown(one: Container) -> Shown:
    """Return a container with a process behind it, and how that is."""
    process = one.process()
    running = process is not None and is_alive(process)
    pid = process.pid if running and process else 0
    age_s = int(time.time() - containers.moment(one.created))
    return Shown(one, running, pid, (0, _NEVER) if running else one.ending(), age_s)


def _old(node: Node, trait: "OldContainer", index: int, changed: Changes) -> Shown:
    name = trait.name or f"sparkctl-a-rank{node.rank}"
    created = (node.root / "state.json").stat().st_mtime - _AGE_S
    ended = changed.stopped.get(name)
    if ended is None and trait.state == "exited":
        ended = (KILLED, stamp(created + 3600))
    return Shown(
        told=_container(node, trait, name, stamp(created)),
        is_running=ended is None,
        pid=0 if ended else _PID + index,
        ending=ended or (0, _NEVER),
        age_s=int(time.time() - created),
        restarts=trait.restarts,
        gpu_mib=0 if ended else round(trait.gpu_gib * 1024),
        host_mib=0 if ended else round(trait.host_gib * 1024),
        is_old=True,
    )


def _container(node: Node, trait: "OldContainer", name: str, created: str) -> Container:
    labels = {"sparkctl.line": "A", "sparkctl.rank": str(node.rank), "sparkctl.boot": _BOOT}
    return Container(
        root=node.root / "containers" / name,
        id=sha256(f"{node.name}/{name}".encode()).hexdigest(),
        name=name,
        image=trait.image,
        created=created,
        labels=labels if trait.ours else {},
        env=trait.env,
        argv=trait.args,
        host={
            "NetworkMode": "host",
            "RestartPolicy": {"Name": trait.restart, "MaximumRetryCount": 0},
            "IpcMode": "host" if trait.ours else "private",
            "ShmSize": round(trait.shared_gib * 1024**3),
            "Binds": [],
            "DeviceRequests": [GPUS] if trait.gpus else None,
            "Devices": [],
            "Runtime": "runc",
        },
        entrypoint=("vllm",),
        remove=False,
    )
