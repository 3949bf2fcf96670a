"""The containers of one practice node: a folder each, and the rank's process behind it.

`container.json` is what `docker run` was told, `process.json` the pid with its start time, `status.json` what the
rank says of itself, `exit.json` how it ended, `log` what it printed. A process that ended without an `exit.json` was
killed.
"""

import calendar
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from rehearsal.node import read_json, write_json
from rehearsal.processes import Process, is_alive

KILLED = 137

_GOING = "."
"""How the name of a folder begins that is being removed; no container's does."""


class Status(NamedTuple):
    """What a rank says of itself while it runs."""

    process_name: str = ""
    gpu_mib: int = 0
    host_mib: int = 0
    running: int = 0
    """Requests being served by the line."""
    frozen: bool = False
    """The engine has stopped under its requests: the GPU spins in a collective and draws little (reported)."""


class Container(NamedTuple):
    """One container."""

    root: Path
    id: str
    name: str
    image: str
    created: str
    labels: dict[str, str]
    env: tuple[str, ...]
    argv: tuple[str, ...]
    host: dict[str, Any]
    """The HostConfig part that was asked for."""
    entrypoint: tuple[str, ...]
    remove: bool

    @property
    def log(self) -> Path:
        """What the rank printed."""
        return self.root / "log"

    def process(self) -> Process | None:
        """Return the rank's process, living or not; None before it was started."""
        try:
            return Process(*read_json(self.root / "process.json"))
        except FileNotFoundError:
            return None

    def is_running(self) -> bool:
        """Whether the rank's process lives."""
        process = self.process()
        return process is not None and is_alive(process)

    def ending(self) -> tuple[int, str]:
        """Return exit code and time of a container that ended; a killed one has the time of its last word."""
        try:
            code, finished = read_json(self.root / "exit.json")
        except FileNotFoundError:
            return KILLED, stamp(self._last_word())
        return int(code), str(finished)

    def _last_word(self) -> float | None:
        try:
            return self.log.stat().st_mtime
        except FileNotFoundError:
            return None

    def status(self) -> Status:
        """Return what a running rank says of itself; nothing of one that does not run."""
        try:
            return Status(**read_json(self.root / "status.json")) if self.is_running() else Status()
        except FileNotFoundError:
            return Status()


def stamp(seconds: float | None = None) -> str:
    """Return a time the way Docker writes it."""
    moment = time.time() if seconds is None else seconds
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1e9):09d}Z"


def moment(stamped: str) -> float:
    """Return the whole seconds of a time that `stamp` wrote."""
    return calendar.timegm(time.strptime(stamped[:19], "%Y-%m-%dT%H:%M:%S"))


def every(node: Path) -> tuple[Container, ...]:
    """Return the node's containers, newest first; one that was started with --rm goes when it has ended."""
    folder = node / "containers"
    there = [path for path in folder.iterdir() if path.name[0] != _GOING] if folder.is_dir() else []
    found = [_read(path) for path in there]
    kept = [one for one in found if one and not _vanished(one)]
    return tuple(sorted(kept, key=lambda one: one.created, reverse=True))


def _vanished(one: Container) -> bool:
    over = one.remove and one.process() is not None and not one.is_running()
    if over:
        forget(one)
    return over


def find(node: Path, name: str) -> Container | None:
    """Return the container with that name, id or beginning of an id."""
    there = every(node)
    plain = name.removeprefix("/")
    named = [one for one in there if one.name == plain]
    return next(iter(named or [one for one in there if len(name) >= 4 and one.id.startswith(name)]), None)


def create(container: Container) -> bool:
    """Reserve the container's name and write what it was told; False when the name is taken."""
    container.root.parent.mkdir(parents=True, exist_ok=True)
    try:
        container.root.mkdir()
    except FileExistsError:
        return False
    told = {key: value for key, value in container._asdict().items() if key != "root"}
    write_json(container.root / "container.json", told)
    return True


def forget(container: Container) -> None:
    """Remove a container that does not run. It goes in one step: who looks meanwhile sees all of it or nothing."""
    gone = container.root.with_name(f"{_GOING}{os.urandom(8).hex()}")
    try:
        container.root.rename(gone)
    except FileNotFoundError:
        return
    # shutil would cost each of the node's commands as much as all its other imports.
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()


def _read(root: Path) -> Container | None:
    try:
        return read(root)
    except FileNotFoundError:  # being made, or gone meanwhile
        return None


def read(root: Path) -> Container:
    """Read one container's folder."""
    raw = read_json(root / "container.json")
    raw["env"], raw["argv"], raw["entrypoint"] = (
        tuple(raw["env"]),
        tuple(raw["argv"]),
        tuple(raw["entrypoint"]),
    )
    return Container(root=root, **raw)


def load(node: Path) -> Status:
    """Return what the node's ranks use together, named after the one that uses most."""
    all_of = [one.status() for one in every(node)]
    top = max(all_of, key=lambda status: status.gpu_mib, default=Status())
    return Status(
        top.process_name,
        sum(status.gpu_mib for status in all_of),
        sum(status.host_mib for status in all_of),
        max((status.running for status in all_of), default=0),
        any(status.frozen for status in all_of),
    )
