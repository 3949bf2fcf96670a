"""Status: what a line is doing, from its containers, its API and, while requests run, its counters. I/O; nothing is changed.

A green /health proves neither that every rank lives nor that the engine moves, so both are looked at.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from launcher import api, gauges, ranks
from launcher.api import Seen
from launcher.gauges import Beat, Look, Power, Pulse
from launcher.ranks import Rank
from sparkctl.clock import Clock
from sparkctl.line import Line
from sparkctl.shell import Shell

State = Literal["serving", "loading", "broken", "frozen", "down", "unclear"]

Report = Callable[[str], None]

SOON_S = (1.0, 2.0, 3.0)
"""Pauses of the first looks at an engine with requests: one that decodes moves within each. Ours."""

LATER_S = 10.0
"""Pause of the later looks, each with the power of the GPUs: the meter lags by 1.5 s (RobTand/prismaquant#488, reported). Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was seen, in one word and one sentence, and what to do about it."""

    state: State
    note: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A whole line; `serves` are the model names that the API lists."""

    line: str
    state: State
    ranks: tuple[Rank, ...]
    url: str
    serves: tuple[str, ...]
    note: str
    hint: str = ""


def observe(line: Line, clock: Clock, report: Report = lambda _: None) -> Status:
    """Look at every rank and at the API, and on at the counters while requests run and nothing moves, up to a minute."""
    with Shell(line) as shell:
        found = _ranks(line, shell)
        seen = api.look(line, clock)
        verdict = judge(found, seen)
        if verdict.state == "serving":
            verdict = with_pulse(verdict, _watch(line, shell, clock, report))
    return Status(
        line=line.name,
        state=verdict.state,
        ranks=found,
        url=line.url,
        serves=seen.serves,
        note=verdict.note,
        hint=verdict.hint,
    )


def judge(found: tuple[Rank, ...], seen: Seen) -> Verdict:
    """Say what ranks and API amount to. An API that answers proves nothing about the other ranks."""
    lost = [f"{rank.node} ({rank.note})" for rank in found if rank.state == "unreachable"]
    running = [rank for rank in found if rank.state == "running"]
    dead = [rank for rank in found if rank.state not in {"running", "unreachable"}]
    if lost:
        return Verdict(state="unclear", note=f"no answer from {', '.join(lost)}")
    if not running and not seen.answers:
        return Verdict(state="down", note=_after("no rank runs", dead))
    if dead:
        names = ", ".join(f"{rank.node} ({rank.since or rank.state})" for rank in dead)
        green = "; the API still answers, which proves nothing" if seen.answers else ""
        return Verdict(
            state="broken",
            note=_after(f"no running rank on {names}{green}", found),
            hint="one rank cannot be started alone: sparkctl logs shows what the dead said last, sparkctl boot starts all anew",
        )
    verdict = _judge_api(seen)
    return replace(verdict, note=_after(verdict.note, found))


def _judge_api(seen: Seen) -> Verdict:
    if not seen.answers:
        return Verdict(state="loading", note="every rank runs; the API does not answer yet")
    if seen.is_locked:
        return _locked(seen)
    if seen.health != 200:
        return Verdict(
            state="broken",
            note=f"every rank's container runs, and /health says {seen.health}, wanted 200: the engine behind the API has ended",
            hint="sparkctl logs shows what it said last; sparkctl boot starts all ranks anew",
        )
    if not seen.serves:
        return Verdict(state="loading", note="every rank runs; the API answers and lists no model yet")
    return Verdict(state="serving", note="every rank runs and the API answers")


def _locked(seen: Seen) -> Verdict:
    """Say that what a line serves is not known, since its API wants a key."""
    lacks = "it refuses the key of api_key_file" if seen.had_key else "it wants a key"
    return Verdict(
        state="unclear",
        note=f"every rank runs and the API is up, but {lacks} ({seen.health} on /health)"
        f"{'' if seen.had_key else ' and status has none'}, so what it serves is not known",
        hint="it was started with another key: boot the line anew"
        if seen.had_key
        else "waiting changes nothing. Name its key's file in the inventory (api_key_file), or serve without one where only the line's own "
        "network reaches it",
    )


def _after(note: str, found: tuple[Rank, ...] | list[Rank]) -> str:
    """Add what is odd about single containers."""
    return "; ".join([note, *(f"{rank.node}: {rank.note}" for rank in found if rank.note)])


_STATES: Mapping[Beat, State] = {"frozen": "frozen", "unclear": "unclear"}


def with_pulse(verdict: Verdict, pulse: Pulse) -> Verdict:
    """Return the verdict on a line that serves, in the light of whether its counters move."""
    hint = ""
    if pulse.beat == "frozen":
        hint = (
            "save what the ranks said (sparkctl logs), then sparkctl down and sparkctl boot: a collective that hangs was not seen to "
            "end by itself in 25 minutes (local-inference-lab/b12x#313, reported)"
        )
    elif pulse.beat == "unclear":
        hint = "ask sparkctl status again in a minute; look at nvidia-smi on the nodes by hand"
    return Verdict(state=_STATES.get(pulse.beat, "serving"), note=f"{verdict.note}; {pulse.note}", hint=hint)


def _ranks(line: Line, shell: Shell) -> tuple[Rank, ...]:
    listed = shell.run(ranks.list_argv(line.name))
    found = tuple(
        ranks.read(node.name, node.rank, rc=said.rc, stdout=said.stdout, stderr=said.stderr)
        for node, said in zip(line.nodes, listed, strict=True)
    )
    named = {rank.node: ranks.inspect_argv(rank.name) for rank in found if rank.name}
    inspected = {said.node: ranks.inspected(said.stdout) for said in shell.run_each(named) if said.rc == 0}
    return tuple(_complete(rank, inspected.get(rank.node)) for rank in found)


def _complete(rank: Rank, seen: ranks.Inspected | None) -> Rank:
    if seen is None:
        return rank
    return replace(
        rank,
        note=ranks.oddities(rank, seen),
        exit_code=seen.exit_code if rank.exit_code is None else rank.exit_code,
        restarts=seen.restarts,
        restart_policy=seen.restart_policy,
    )


def _watch(line: Line, shell: Shell, clock: Clock, report: Report) -> Pulse:
    """Look at the counters until they say something: at once when nothing runs or a token moves, at last after a minute."""
    nodes = tuple(node.name for node in line.nodes)
    looks = [_look(line, clock)]
    pauses = iter(SOON_S)
    while (pulse := gauges.judge(looks, nodes)).beat == "still":
        soon = next(pauses, None)
        if soon is None:
            report(f"{pulse.note}; looking on until {gauges.STILL_S:.0f} s")
        clock.sleep(LATER_S if soon is None else soon)
        power = _power(shell, nodes, looks) if soon is None else {}
        looks.append(replace(_look(line, clock), power=power))
    return pulse


def _look(line: Line, clock: Clock) -> Look:
    page = api.metrics_text(line, clock)
    return Look(at_s=clock.monotonic_s(), gauges=None if page is None else gauges.read(page))


def _power(shell: Shell, nodes: tuple[str, ...], looks: list[Look]) -> dict[str, Power]:
    """Ask the nodes for their GPU's power, save those that did not answer before: nvidia-smi can block for minutes there."""
    silent = {node for one in looks for node, power in one.power.items() if power.watts is None}
    asked = {node: gauges.POWER_ARGV for node in nodes if node not in silent}
    return {
        said.node: gauges.read_power(said.stdout) if said.rc == 0 else Power(watts=None)
        for said in shell.run_each(asked)
    }
