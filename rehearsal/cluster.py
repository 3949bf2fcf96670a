"""Practice clusters as the command line sees them: raise one, find it, lower it, and say which scenarios exist."""

import fcntl
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rehearsal import layout, processes
from rehearsal.containers import every
from rehearsal.node import read_json, write_json
from rehearsal.processes import Process
from rehearsal.scenario import Scenario, named, scenarios
from sparkctl.clock import system_clock
from sparkctl.errors import FileFault, Unclear, UsageFault

__all__ = ["Cluster", "Scenario", "demand", "find", "lower", "raise_cluster", "scenarios"]

_ODD = ':"{}\n'
_IDLE_S = 1800.0
_READY_S = 20.0
_LOWER_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running practice cluster. Everything that comes out of it is simulated."""

    home: Path
    pid: int
    scenario: str
    seed: int
    pace: float
    """How many of the line's seconds pass in one of ours: what the clock of a `--rehearsal` run is scaled by."""
    inventory: Path
    nodes: tuple[str, ...]
    started: str


def raise_cluster(  # noqa: PLR0913 - all but two are named and have defaults
    home: Path,
    scenario: str,
    *,
    mended: bool = False,
    seed: int | None = None,
    pace: float | None = None,
    idle_s: float = _IDLE_S,
) -> Cluster:
    """Start a practice cluster whose files lie in `home`, and wait until every node answers that is meant to.

    `mended` leaves out what the scenario says of single nodes: the same line with its fault removed.

    Raises:
        UsageFault: no such scenario, or a cluster already runs there.
        Unclear: the nodes did not answer in time.

    """
    told = named(scenario)
    told = replace(told, seed=told.seed if seed is None else seed, pace=told.pace if pace is None else pace)
    told = replace(told, nodes={}) if mended else told
    if told.pace <= 0:
        raise UsageFault(f"pace {told.pace:g} is not above 0", hint="the scenarios use 15")
    home = home.resolve()
    odd = sorted(set(_ODD) & set(str(home)))
    if odd:
        raise UsageFault(
            f"{home}: a practice cluster cannot live in a path with {' '.join(map(repr, odd))}",
            hint="name another folder with --state: a node's PATH and Ansible read these signs as their own",
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise FileFault(
            f"{home}: cannot be made: {fault}", hint="name another folder with --state"
        ) from fault
    with _alone(home):
        running = find(home)
        if running:
            raise UsageFault(
                f"a practice cluster already runs in {home} (scenario {running.scenario}, pid {running.pid})",
                hint="`sparkctl rehearse down` ends it",
            )
        _end_everything(home)
        layout.clear(home)
        return _await(home, _start(home, told, idle_s))


def demand(scenario: str) -> None:
    """Refuse a scenario that does not exist, before anything that runs is taken down for it.

    Raises:
        UsageFault: there is none of this name.

    """
    named(scenario)


def _start(home: Path, told: Scenario, idle_s: float) -> "subprocess.Popen[bytes]":
    token = secrets.token_hex(16)
    layout.furnish(home, told, token)
    facts = {"scenario": told.name, "seed": told.seed, "pace": told.pace, "started": system_clock().today()}
    facts["recipe"] = layout.recipe(told)
    write_json(home / "cluster.json", facts | {"token": token})
    with (home / "daemon.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "rehearsal.daemon", str(home), str(idle_s)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=Path(__file__).resolve().parent.parent,
            env={**os.environ, processes.MARK: token},
            start_new_session=True,
        )


def _await(home: Path, daemon: "subprocess.Popen[bytes]") -> Cluster:
    until = time.monotonic() + _READY_S
    while time.monotonic() < until and daemon.poll() is None:
        found = find(home)
        if found and all(_answers(*at) for at in _told(home)["doors"]):
            # The daemon outlives us on purpose; without this Popen would warn that it is still running.
            daemon.returncode = 0
            return found
        time.sleep(0.02)
    _end_everything(home)
    log = (home / "daemon.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise Unclear(
        f"the practice nodes did not answer: {log[-1] if log else 'the daemon said nothing'}",
        hint=f"see {home / 'daemon.log'}",
    )


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=2) as door:
            return door.recv(4) == b"SSH-"
    except OSError:
        return False


def find(home: Path) -> Cluster | None:
    """Return the cluster that runs in that home, or None."""
    home = home.resolve()
    told = _told(home)
    if "daemon" not in told or not processes.is_alive(Process(*told["daemon"])):
        return None
    return Cluster(
        home=home,
        pid=told["daemon"][0],
        scenario=told["scenario"],
        seed=told["seed"],
        pace=told["pace"],
        inventory=home / "inventory.yml",
        nodes=tuple(root.name for root in layout.roots(home)),
        started=told["started"],
    )


def lower(home: Path) -> None:
    """End a cluster and every process that it or its nodes started; one that has ended already is no fault.

    Raises:
        Unclear: a process outlived even SIGKILL.

    """
    home = home.resolve()
    if not home.is_dir():
        return
    with _alone(home):
        _end_everything(home)
        (home / "cluster.json").unlink(missing_ok=True)


def _end_everything(home: Path) -> None:
    told = _told(home)
    daemon = [Process(*told["daemon"])] if "daemon" in told else []
    ranks = [one.process() for root in layout.roots(home) for one in every(root)]
    # The daemon first: it refuses new commands, then ends what it started; the rest is what a killed daemon left.
    left = processes.end(tuple(daemon), _LOWER_S)
    left += processes.end(tuple(rank for rank in ranks if rank), _LOWER_S)
    if "token" in told:
        left += processes.end(processes.marked(told["token"]), _LOWER_S)
    if left:
        raise Unclear(
            f"processes {', '.join(str(one.pid) for one in left)} of the practice cluster did not end",
            hint="look at them with ps; they hold on to something outside the cluster",
        )


def _told(home: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = read_json(home / "cluster.json")
    except (FileNotFoundError, ValueError):
        return {}
    return told


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold the home against another raise or lower at the same time."""
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
