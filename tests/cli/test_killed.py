"""A controller that is killed at any step of a boot leaves a line that status describes and down clears."""

import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rehearsal import containers
from rehearsal.layout import NODES
from sparkctl import inventory

if TYPE_CHECKING:
    from conftest import Program

pytestmark = pytest.mark.cluster

# Every row that a boot which gets ready writes, in order.
STEPS = (
    ("check", "began"),
    ("check", "done"),
    ("settle", "began"),
    ("settle", "done"),
    ("launch", "began"),
    ("launch", "done"),
    ("ready", "began"),
    ("ready", "done"),
)


def _rows(program: "Program") -> list[dict[str, Any]]:
    path = program.state / "ledger.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _kill_at(program: "Program", stage: str, state: str, *arguments: str) -> list[dict[str, Any]]:
    """Boot, kill the controller itself as soon as the step is on disk, and return the rows that were there."""
    before = len(_rows(program))
    boot = program.start("boot", "--rehearsal", *arguments)
    until = time.monotonic() + 120
    while True:
        told = [(row["body"].get("stage"), row["body"].get("state")) for row in _rows(program)[before:]]
        if (stage, state) in told:
            break
        assert boot.poll() is None, boot.communicate()[1]
        assert time.monotonic() < until, f"{stage} {state} did not come"
        time.sleep(0.005)
    boot.send_signal(signal.SIGKILL)
    boot.communicate()
    return _rows(program)


def _running(program: "Program") -> list[str]:
    return [
        one.name
        for node in NODES
        for one in containers.every(program.state / "rehearsal" / node)
        if one.is_running()
    ]


def _orphans(program: "Program") -> list[str]:
    """Processes of a playbook that changes the program's line, ssh's own masters left out."""
    line = inventory.read(program.state / "rehearsal" / "inventory.yml").line("A")
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"SPARKCTL_CHANGES={line.identity}".encode() in environment and b"[mux]" not in command:
            found.append(command.decode(errors="replace"))
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    ("stage", "state"),
    [pytest.param(*step, id="-".join(step)) for step in STEPS],
)
def test_a_killed_controller_leaves_what_down_clears(practice: "Program", stage: str, state: str) -> None:
    """Status names the boot and where it broke off; down leaves no rank and no process; no row is lost."""
    kept = _kill_at(practice, stage, state)
    last = kept[-1]  # a step that follows at once may be on disk too
    unfinished = practice("status", "--rehearsal", "--json").document["unfinished"]
    if last["kind"] == "boot":
        assert unfinished == ""
    else:
        assert f"`{last['body']['stage']} {last['body']['state']}`" in unfinished
        assert "boot --resume" in unfinished
    down = practice("down", "--rehearsal")
    assert down.code == 0, down.err
    time.sleep(1.0)
    assert _running(practice) == []
    assert _orphans(practice) == []
    rows = _rows(practice)
    assert rows[: len(kept)] == kept
    assert practice("ledger", "verify").code == 0
    assert practice("status", "--rehearsal", "--json").document["unfinished"] == ""


def test_a_boot_goes_on_from_what_runs(practice: "Program") -> None:
    """Killed while its ranks load, a boot is taken up under its own id and its ranks are not started again."""
    kept = _kill_at(practice, "ready", "began")
    boot = kept[-1]["body"]["boot"]
    resumed = practice("boot", "--rehearsal", "--resume", "--json")
    assert resumed.code == 0, resumed.err
    assert (resumed.document["boot"], resumed.document["stage"]) == (boot, "ready")
    stages = [row["body"].get("stage") for row in _rows(practice)[len(kept) :]]
    assert "launch" not in stages
    assert practice("boot", "--rehearsal", "--resume").code == 2
    assert practice("down", "--rehearsal").code == 0
