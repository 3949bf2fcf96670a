"""Status: what a line is doing, from its containers and its API. I/O over Fabric; nothing is changed."""

from dataclasses import dataclass
from typing import Literal

from bootcheck.facts import Record, Unread
from bootcheck.probes.container import list_argv, parse_containers
from launcher import api
from sparkctl import unreachable
from sparkctl.clock import Clock
from sparkctl.line import Line
from sparkctl.shell import Said, Shell

State = Literal["serving", "loading", "broken", "down", "unclear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank as its node tells it; `state` is docker's word, `absent`, or `unreachable`."""

    node: str
    rank: int
    state: str
    since: str = ""
    boot: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A whole line; `serves` are the model names that the API lists."""

    line: str
    state: State
    ranks: tuple[Rank, ...]
    url: str
    serves: tuple[str, ...]
    note: str


def observe(line: Line, clock: Clock) -> Status:
    """Look at every rank and at the API once."""
    with Shell(line) as shell:
        argv = list_argv(line.name)
        said = shell.run(argv)
    ranks = tuple(_rank(node.rank, one, argv) for node, one in zip(line.nodes, said, strict=True))
    serves = api.served_names(line, clock) if api.is_up(line, clock) else ()
    state, note = judge(ranks, serves)
    return Status(line=line.name, state=state, ranks=ranks, url=line.url, serves=serves, note=note)


def judge(ranks: tuple[Rank, ...], serves: tuple[str, ...]) -> tuple[State, str]:
    """Say what ranks and API amount to. An API that answers proves nothing about the other ranks."""
    lost = [f"{rank.node} ({rank.note})" for rank in ranks if rank.state == "unreachable"]
    running = [rank for rank in ranks if rank.state == "running"]
    dead = [rank.node for rank in ranks if rank.state not in {"running", "unreachable"}]
    if lost:
        return "unclear", f"no answer from {', '.join(lost)}"
    if not running and not serves:
        return "down", "no rank runs"
    if dead:
        green = "; the API still answers, which proves nothing" if serves else ""
        return "broken", f"no running rank on {', '.join(dead)}{green}"
    return (
        ("serving", "every rank runs and the API answers")
        if serves
        else ("loading", "the API does not answer yet")
    )


def _rank(rank: int, said: Said, argv: tuple[str, ...]) -> Rank:
    if said.rc is None:
        return Rank(node=said.node, rank=rank, state="unreachable", note=unreachable.say(said.stderr)[0])
    record = Record(
        probe="containers", argv=argv, rc=said.rc, stdout=said.stdout, stderr=said.stderr, seconds=0.0
    )
    containers = parse_containers(record)
    if isinstance(containers, Unread):
        return Rank(node=said.node, rank=rank, state="unreachable", note=containers.why)
    if not containers.found:
        return Rank(node=said.node, rank=rank, state="absent")
    found = containers.found[0]
    return Rank(node=said.node, rank=rank, state=found.state, since=found.since, boot=found.boot)
