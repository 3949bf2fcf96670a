"""Ranks: what docker says of a line's containers, to the state of each rank. Pure.

`docker ps` has the words (`Up 3 minutes`, `Exited (137) 2 hours ago`), `docker inspect` what they leave out: how often a container
was started again, and whether docker will do so by itself.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from sparkctl import unreachable
from sparkctl.units import times

_EXIT = re.compile(r"\b(?:Exited|Restarting) \((?P<code>[0-9]{1,3})\)", re.ASCII)

KILLED = {137: "SIGKILL", 143: "SIGTERM"}
"""Exit codes of a process that somebody ended, docker stop among them: not yet out of memory (Blackwellboy/
model-serving-minefield#134: earlyoom did it, reported)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank as its node tells it; `state` is docker's word, `absent`, or `unreachable`, and `since` are docker's words.

    `exit_code` is that of a container that does not run, `restarts` how often docker started it again; None is unknown.
    """

    node: str
    rank: int
    state: str
    since: str = ""
    boot: str = ""
    note: str = ""
    name: str = ""
    exit_code: int | None = None
    restarts: int | None = None
    restart_policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What only `docker inspect` tells; None and empty are unknown."""

    exit_code: int | None = None
    restarts: int | None = None
    restart_policy: str = ""
    killed_by_kernel: bool = False


def list_argv(line: str) -> tuple[str, ...]:
    """List every container of a line, running or not."""
    return (
        "docker",
        "ps",
        "-a",
        "--no-trunc",
        "--filter",
        f"label=sparkctl.line={line}",
        "--format",
        "{{json .}}",
    )


def inspect_argv(name: str) -> tuple[str, ...]:
    """Inspect one container."""
    return ("docker", "inspect", "--type", "container", name)


def read(node: str, rank: int, *, rc: int | None, stdout: str, stderr: str) -> Rank:
    """Read one node's `docker ps`. Of several containers the one that runs counts, else the newest, which docker lists first."""
    if rc is None:
        return Rank(node=node, rank=rank, state="unreachable", note=unreachable.say(stderr)[0])
    if rc != 0:
        return Rank(
            node=node, rank=rank, state="unreachable", note=stderr.strip() or f"docker ended with {rc}"
        )
    try:
        rows: list[Any] = [json.loads(text) for text in stdout.splitlines() if text.strip()]
        found = [_rank(node, rank, row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError):
        seen = " ".join(stdout.split())[:80]
        return Rank(
            node=node, rank=rank, state="unreachable", note=f"not the JSON lines of docker ps: {seen!r}"
        )
    running = [one for one in found if one.state == "running"]
    return (running or found or [Rank(node=node, rank=rank, state="absent")])[0]


def _rank(node: str, rank: int, row: Any) -> Rank:
    labels = dict(pair.split("=", 1) for pair in str(row["Labels"]).split(",") if "=" in pair)
    since = str(row["Status"])
    left = _EXIT.search(since)
    return Rank(
        node=node,
        rank=rank,
        state=str(row["State"]),
        since=since,
        boot=labels.get("sparkctl.boot", ""),
        name=str(row["Names"]),
        exit_code=int(left["code"]) if left else None,
    )


def inspected(text: str) -> Inspected:
    """Read `docker inspect` of one container; whatever it does not say stays unknown."""
    try:
        answer: Any = json.loads(text)
        found = answer[0]
        state, policy = found["State"], found["HostConfig"]["RestartPolicy"]["Name"]
        restarts, code = found["RestartCount"], state["ExitCode"]
        return Inspected(
            exit_code=None if state["Running"] else _whole(code),
            restarts=_whole(restarts),
            restart_policy=policy if isinstance(policy, str) else "",
            killed_by_kernel=state.get("OOMKilled") is True,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return Inspected()


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def oddities(rank: Rank, seen: Inspected) -> str:
    """Say what is wrong with a container beyond its state; empty when nothing is."""
    said = []
    code = seen.exit_code if rank.exit_code is None else rank.exit_code
    if seen.killed_by_kernel:
        said.append("docker says that it was killed for want of memory")
    elif code in KILLED:
        said.append(f"ended by {KILLED[code]}: the node's journal says by whom")
    if seen.restarts:
        said.append(f"started again {times(seen.restarts)} by docker")
    if seen.restart_policy not in {"", "no"}:
        said.append(f"restart policy {seen.restart_policy}, where none may be")
    return "; ".join(said)
