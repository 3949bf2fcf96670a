"""`sparkctl tune --line A --line B` on two practice lines: real SSH, real Ansible, a real HTTP API on eight nodes.

What only processes and the record decide is in test_joint.py, on drawn boots.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.entry import Row
from ledger.history import climbs, events
from ledger.journal import Journal
from rehearsal import containers, layout
from sparkctl import edge
from tuner import joint
from tuner.factorial import together
from tuner.lever import Ladder
from tuner.steps import Away, Back, Trial

from .conftest import Program

pytestmark = [pytest.mark.cluster, pytest.mark.full]

LADDER = Path(__file__).parent / "ladders" / "pair.yml"
LINES = ("--line", "A", "--line", "B")
PLANNED = ("--seed", "1", "--boots", "40")
LIMIT_S = 1500


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Program]:
    """A program whose practice cluster, if it raises one, is taken down with the test."""
    program = Program(tmp_path / "state")
    yield program
    program("rehearse", "down")


def tune(*more: str) -> tuple[str, ...]:
    """The climb as one would type it."""
    return ("tune", "--rehearsal", *LINES, "--ladder", str(LADDER), *more, "--json")


def rows(program: Program) -> tuple[Row, ...]:
    """What is on record."""
    path = program.state / "ledger.jsonl"
    return Journal(path).read().rows if path.exists() else ()


def benches(program: Program) -> dict[str, int]:
    """How many benches of each line are on record."""
    found = [row.line for row in rows(program) if row.kind == "bench"]
    return {line: found.count(line) for line in "AB"}


def until(running: subprocess.Popen[str], is_so: Callable[[], bool]) -> None:
    """Wait until something is so while a climb runs."""
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end
        time.sleep(0.2)


def arms(program: Program) -> dict[str, list[tuple[str, ...]]]:
    """What each line booted, in order."""
    return {one.line: [trial.arm for trial in one.trials] for one in climbs(rows(program))}


def demand_asked(program: Program) -> None:
    """Replay the record: every boot is the one that its line had to make next, so none was made twice."""
    own = climbs(rows(program))[0]
    rungs = edge.read(LADDER, Ladder)
    state = joint.start(own.plan.course, rungs)
    for event in events(rows(program), own.id, simulated=True):
        if isinstance(event, Trial):
            assert event.arm == together.standings(state).ahead[event.line].on, event
        state = together.advance(state, event)


def demand_serving(program: Program, line: str, stack: list[str]) -> None:
    """A line serves, and its head's container was started with the stack's settings."""
    seen = program("status", "--rehearsal", "--line", line, "--json").document
    assert seen["state"] == "serving", seen["note"]
    head = layout.folder(program.state / "rehearsal", line) / layout.names(line)[0]
    environment = next(one for one in containers.every(head) if one.is_running()).env
    assert ("NCCL_MAX_NCHANNELS=8" in environment) == ("nccl-channels" in stack)
    assert "NCCL_NTHREADS=256" not in environment


def test_two_lines_climb_together_through_a_kill(lines: Program) -> None:
    """One gain is found with an effect from both lines, one lever is rejected; both serve what won; no finished boot is made again."""
    running = lines.start(*tune("--scenario", "two-lines", *PLANNED))
    until(running, lambda: min(benches(lines).values()) >= 3)
    time.sleep(4)  # into the next boot of at least one line
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    kept, before = rows(lines), arms(lines)
    ended = lines(*tune("--resume"), limit_s=LIMIT_S)
    assert ended.code == 0, ended.err
    told = ended.document
    assert (told["line"], told["end"], told["stack"]) == ("A+B", "done", ["nccl-channels"])
    judged = {one["lever"]: one for one in told["verdicts"]}
    assert {lever: one["verdict"] for lever, one in judged.items()} == {
        "nccl-channels": "accept",
        "nccl-threads": "reject",
    }
    pooled = judged["nccl-channels"]["metrics"]["c6_agg_tok_s"]
    by_line = {
        line: one["c6_agg_tok_s"]["estimate"] for line, one in judged["nccl-channels"]["by_line"].items()
    }
    assert pooled["low"] > 1.0
    assert min(by_line.values()) <= pooled["estimate"] <= max(by_line.values())
    faster = {line: base(lines, line)["c1_per_stream_tok_s"] for line in "AB"}
    assert 1.05 < faster["B"] / faster["A"] < 1.15, "what one line is faster by is no lever's gain"
    for line in "AB":
        assert told["lines"][line]["confirmed"]["gain"]["c6_agg_tok_s"]["low"] > 1.0
        demand_serving(lines, line, told["stack"])
    assert rows(lines)[: len(kept)] == kept
    demand_asked(lines)
    after = arms(lines)
    assert all(after[line][: len(before[line])] == before[line] for line in "AB")
    assert {line: len(own) for line, own in after.items()} == {
        line: told["lines"][line]["boots"] for line in "AB"
    }
    assert lines("ledger", "verify").code == 0


def base(program: Program, line: str) -> dict[str, float]:
    """The figures of a line's first base boot."""
    own = next(one for one in climbs(rows(program)) if one.line == line)
    return dict(next(one for one in own.trials if not one.arm and one.outcome == "measured").values)


def stopped(running: subprocess.Popen[str]) -> tuple[Any, str]:
    """Press Ctrl-C once: what is under way ends, and the climb says where it stands."""
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 4, err
    return json.loads(out), err


def test_a_line_that_loses_a_node_is_taken_in_again(lines: Program) -> None:
    """B leaves with its node and cause and A goes on; once the node is mended --resume goes on with both."""
    running = lines.start(*tune("--scenario", "lost-line", *PLANNED))
    until(running, lambda: Away in happened(lines) and benches(lines)["A"] >= 3)
    told, err = stopped(running)
    away = told["lines"]["B"]["away"]
    assert "3 boots in a row were stopped before the launch, the last on spark-b2" in away
    assert f"line B: leaves the climb: {away}" in err
    assert "line A goes on by the same plan" in err
    kept, counted = rows(lines), benches(lines)
    assert lines("rehearse", "up", "--scenario", "lost-line", "--mended").code == 0
    running = lines.start(*tune("--resume"))
    until(running, lambda: benches(lines)["B"] > counted["B"] + 1)
    told, _ = stopped(running)
    assert told["lines"]["B"]["away"] is None
    assert [kind for kind in happened(lines) if kind is not Trial] == [Away, Back]
    assert rows(lines)[: len(kept)] == kept
    demand_asked(lines)
    assert lines("ledger", "verify").code == 0


def test_a_line_whose_base_fails_is_out_and_the_other_goes_on(lines: Program) -> None:
    """Three boots of B's base end on one node: that is said and nothing is left running there, while A boots and is measured."""
    running = lines.start(*tune("--scenario", "broken-line", *PLANNED))
    until(running, lambda: arms(lines).get("B", []) == [()] * 3 and benches(lines)["A"] >= 4)
    told, err = stopped(running)
    assert told["lines"]["B"]["boots"] == 3
    assert "spark-b2" in told["lines"]["B"]["away"]
    assert (told["lines"]["A"]["boots"] >= 4, told["lines"]["A"]["away"]) == (True, None)
    assert "line B left the climb" in err
    assert lines("status", "--rehearsal", "--line", "B", "--json").document["state"] == "down"
    demand_asked(lines)
    assert lines("ledger", "verify").code == 0


def happened(program: Program) -> list[type]:
    """What kinds of events the climb had, in order; none before it began."""
    own = next(iter(climbs(rows(program))), None)
    if own is None:
        return []
    return [type(one) for one in events(rows(program), own.id, simulated=True)]
