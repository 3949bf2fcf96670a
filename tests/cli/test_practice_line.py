"""The verbs on a practice line: real SSH, real Ansible, a real HTTP API; what the nodes show is simulated."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from sparkctl import inventory as inventory_module
from sparkctl.cli.hold import holder

from .conftest import Program

pytestmark = pytest.mark.cluster


def test_a_slow_node_is_named_with_its_figure(practice: Program) -> None:
    """The hidden slow state fails one gate on one node, with the number; the exit code is 1."""
    ended = practice("check", "--rehearsal", "--scenario", "slow-node", "--line", "A", "--json")
    assert ended.code == 1, ended.err
    wrong = [one for one in ended.document["findings"] if one["verdict"] != "pass"]
    assert [(one["node"], one["gate"], one["verdict"]) for one in wrong] == [("spark-a2", "gemv", "fail")]
    assert 60 < float(wrong[0]["measured"].split()[0]) < 80
    assert wrong[0]["hint"]
    assert ended.document["ok"] is False
    assert ended.document["simulated"] is True


def test_a_gate_stops_a_boot_before_anything_is_touched(practice: Program) -> None:
    """On the same nodes a boot ends at the check, starts nothing, and the ledger says why."""
    ended = practice("boot", "--rehearsal", "--line", "A", "--json")
    assert ended.code == 1
    assert (ended.document["stage"], ended.document["node"]) == ("check", "spark-a2")
    seen = practice("status", "--rehearsal", "--json").document
    assert seen["state"] == "down", seen["note"]
    assert practice("ledger", "verify").code == 0


def test_a_rank_that_cannot_start_is_named_with_its_error(practice: Program) -> None:
    """A KV cache too small for one request ends the boot with the engine's own words and leaves no rank running."""
    arguments = ("--scenario", "healthy", "--set", "memory.kv_cache_gib=0.25", "--json")
    ended = practice("boot", "--rehearsal", *arguments)
    assert ended.code == 1, ended.err
    assert (ended.document["stage"], ended.document["node"]) == ("ready", "spark-a0")
    assert "max seq len (300000)" in ended.document["why"]
    assert ended.document["log"]
    seen = practice("status", "--rehearsal", "--json").document
    assert seen["state"] == "down", seen["note"]


@pytest.mark.full
def test_ctrl_c_while_an_old_line_is_stopped_leaves_no_half_line(practice: Program) -> None:
    """An interrupt of a boot that replaces ranks which serve ends with exit 3 and every rank stopped."""
    assert practice("boot", "--rehearsal", "--again").code == 0, "there must be an old line to stop"
    with _booting(practice) as running:
        _interrupted_at(running, "settle: spark-a0: No head is left")
    _assert_down(practice)


def test_a_boot_has_its_line_alone_and_ctrl_c_leaves_no_half_of_it(practice: Program) -> None:
    """A second call is refused and says whose turn it is; an interrupt while ranks start ends with exit 3 and every rank stopped."""
    with _booting(practice) as running:
        line = inventory_module.read(practice.state / "rehearsal" / "inventory.yml").line("A")
        until = time.monotonic() + 30
        while holder(line) != str(running.pid) and time.monotonic() < until:
            time.sleep(0.05)
        refused = practice("down", "--rehearsal")
        lowered = practice("rehearse", "down")
        _interrupted_at(running, "launch: spark-a3: Every rank but the last runs")
    assert refused.code == 1
    assert f"in use by another sparkctl (pid {running.pid})" in refused.err
    assert lowered.code == 1, "nor is the practice cluster taken from under it"
    _assert_down(practice)


@contextmanager
def _booting(practice: Program) -> Iterator[subprocess.Popen[str]]:
    running = practice.start("boot", "--rehearsal", "--again", "--verbose")
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def _interrupted_at(running: subprocess.Popen[str], moment: str) -> None:
    assert running.stderr is not None
    assert any(moment in text for text in running.stderr), "the boot ended before it came so far"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 3, err
    assert "\nhint: " in err


def _assert_down(practice: Program) -> None:
    seen = practice("status", "--rehearsal", "--json").document
    assert seen["state"] == "down", seen["note"]


def test_a_node_that_does_not_answer_is_unknown(practice: Program, tmp_path: Path) -> None:
    """Two bad nodes: each its trouble with a remedy, the others judged, exit 3, and a boot touches nothing."""
    inventory = yaml.safe_load((practice.state / "rehearsal" / "inventory.yml").read_text())
    del inventory["all"]["vars"]["practice"]
    hosts = inventory["all"]["children"]["line_a"]["hosts"]
    hosts["spark-a1"].update({"ansible_port": 1})
    hosts["spark-a2"].update({"ansible_user": "nobody", "ansible_ssh_private_key_file": "/dev/null"})
    path = tmp_path / "inventory.yml"
    path.write_text(yaml.safe_dump(inventory))
    ended = practice("check", "-i", str(path), "--json")
    assert ended.code == 3, ended.out
    unknown = [one for one in ended.document["findings"] if one["verdict"] == "unknown"]
    assert [(one["node"], one["gate"]) for one in unknown] == [
        ("spark-a1", "reachable"),
        ("spark-a2", "reachable"),
    ]
    assert unknown[0]["measured"].startswith("the connection was refused")
    assert unknown[1]["measured"].startswith("the login was refused")
    assert all(one["hint"] for one in unknown)
    assert {one["node"] for one in ended.document["findings"] if one["verdict"] == "pass"} >= {
        "spark-a0",
        "spark-a3",
    }
    booted = practice("boot", "-i", str(path), "--again", "--json")
    assert (booted.code, booted.document["stage"], booted.document["node"]) == (3, "check", "spark-a1")


def test_a_practice_inventory_is_used_as_practice_only(practice: Program) -> None:
    """Without --rehearsal the figures of a practice line would pass for real ones, at its pace."""
    path = str(practice.state / "rehearsal" / "inventory.yml")
    for verb in ("check", "bench", "status"):
        ended = practice(verb, "-i", path)
        assert ended.code == 2
        assert "add --rehearsal" in ended.err


def test_a_changed_host_key_is_never_accepted(practice: Program, tmp_path: Path) -> None:
    """A key that is not the known one is told as such, for Ansible and for Fabric alike."""
    home = practice.state / "rehearsal"
    inventory = yaml.safe_load((home / "inventory.yml").read_text())
    lines = Path(inventory["all"]["vars"]["known_hosts"]).read_text().splitlines()
    names, keys = [line.split(" ", 1)[0] for line in lines], [line.split(" ", 1)[1] for line in lines]
    swapped = tmp_path / "known_hosts"
    swapped.write_text(
        "".join(f"{name} {key}\n" for name, key in zip(names, (*keys[1:], keys[0]), strict=True))
    )
    inventory["all"]["vars"]["known_hosts"] = str(swapped)
    del inventory["all"]["vars"]["practice"]
    path = tmp_path / "inventory.yml"
    path.write_text(yaml.safe_dump(inventory))
    ended = practice("check", "-i", str(path), "--json")
    assert ended.code == 3
    told = {one["measured"] for one in ended.document["findings"]}
    assert {one.partition(" (")[0] for one in told} == {"its host key is not the one in known_hosts"}
    assert all(f"{swapped}:" in one for one in told), "and in which line of which file"
    seen = practice("status", "-i", str(path), "--json")
    assert seen.code == 3
    assert {rank["note"] for rank in seen.document["ranks"]} == {"its host key is not the one in known_hosts"}
    assert json.loads(json.dumps(seen.document))["state"] == "unclear"
