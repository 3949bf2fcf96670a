"""From the answers of a playbook to a bundle, and what the nodes are asked."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bootcheck import collect, gates
from bootcheck.facts import Bundle, Context, Unread
from bootcheck.floors import Floors
from bootcheck.gates.gate import Scene
from bootcheck.probes.memory import Memory
from bootcheck.probes.software import Kernel
from bootcheck.probes.table import PROBES, loading, requested
from sparkctl import edge
from sparkctl.ansible import Answer, Status
from sparkctl.errors import FileFault

ROOT = Path(__file__).parents[2]


def _answer(host: str, status: Status = "ok", message: str = "", task: str = "t", **result: object) -> Answer:
    return Answer(
        host=host,
        task=task,
        status=status,
        changed=False,
        message=message,
        seconds=0.1,
        result={"changed": False, **result},
    )


def test_every_answer_ends_up_with_its_node(known: Context) -> None:
    """Records, an unreachable node, a failed task and a node that was never asked are told apart."""
    record = {
        "probe": "memory",
        "argv": ["cat", "/proc/meminfo"],
        "rc": 0,
        "stdout": "MemTotal: 100 kB\nMemFree: 50 kB\nMemAvailable: 60 kB\nCached: 1 kB\n",
        "stderr": "",
        "seconds": 0.01,
    }
    bundle = collect.bundle(
        known,
        (
            _answer("spark-a0", probes=[record]),
            _answer("spark-a1", "unreachable", "ssh: connect to host 10.0.0.1 port 22: Connection refused"),
            _answer(
                "spark-a2",
                "failed",
                "The module interpreter '/x/python3' was not found.",
                task=collect.LOOK,
            ),
        ),
    )
    first, second, third, fourth = collect.facts(bundle)
    assert first.one(Memory) == Memory(total=102400, free=51200, available=61440, cached=1024)
    assert first.one(Kernel) == Unread(probe="kernel", why="not in the bundle")
    assert second.unreachable == "the connection was refused"
    assert "Python interpreter" in third.unreachable
    assert fourth.unreachable == "it was not asked"


def test_a_node_pings_every_rail_of_every_other_node(known: Context) -> None:
    """Each node pings six addresses, none of its own, with packets that fill each of two MTUs exactly."""
    table = collect.tables(known)["spark-a1"]
    pings = [row["argv"] for row in table if row["probe"] == "jumbo-ping"]
    assert {argv[-1] for argv in pings} == {f"10.10.{rail}.{host}" for rail in (1, 2) for host in (1, 3, 4)}  # type: ignore[index]
    assert [argv[argv.index("-s") + 1] for argv in pings] == ["4172", "8972"] * 6  # type: ignore[index,attr-defined]


def test_the_burning_probe_waits_for_a_quiet_gpu(known: Context) -> None:
    """What loads a node runs alone, and only when no process is listed on the GPU."""
    alone = [row for row in collect.tables(known)["spark-a0"] if row["group"] == "alone"]
    assert {row["probe"] for row in alone} == loading()
    assert all(row["only_if_quiet"] == {"probe": "gpu-processes", "most_lines": 1} for row in alone)


def test_every_command_has_a_time_limit(known: Context) -> None:
    """nvidia-smi may block for minutes (1,105 s in r0b0tlab/dsv41-flash-tp4-sglang-sm121, reported), so nothing runs without a limit."""
    limits = {str(row["probe"]): float(str(row["limit_s"])) for row in collect.tables(known)["spark-a0"]}
    assert all(0 < limit <= 120 for name, limit in limits.items() if name not in requested())
    assert all(limits[name] > 0 for name in requested())
    # nccl-tests is judged when a bundle holds it and has no command.


def test_every_probe_is_listed() -> None:
    """One that runs nothing too: it says that it is judged when a bundle holds it."""
    told = {name: (about, argv) for name, about, argv in collect.examples(Floors())}
    assert set(told) == {probe.name for probe in PROBES}
    silent = {name: about for name, (about, argv) in told.items() if not argv}
    assert set(silent) == {"nccl-tests"}
    assert "judged when a bundle holds one" in silent["nccl-tests"]


def test_the_look_is_the_task_of_the_probe_role() -> None:
    """By its name a failed look is told from a failed step."""
    tasks = yaml.safe_load((ROOT / "playbooks" / "roles" / "probe" / "tasks" / "main.yml").read_text())
    assert [one["name"] for one in tasks] == [collect.LOOK]


def test_a_step_that_failed_is_no_silence(known: Context) -> None:
    """A node that answers and on which settling failed is reachable: the step is named, and its gate fails."""
    said = "/dev/x is full"
    answers = (
        _answer("spark-a1", "failed", said, task="The rank is absent"),
        *(_answer(name, probes=[]) for name in ("spark-a0", "spark-a2", "spark-a3")),
    )
    bundle = collect.bundle(known, answers)
    assert bundle.nodes["spark-a1"].unreachable == ""
    again = edge.structure(json.loads(json.dumps(edge.plain(bundle))), Bundle, source="it")
    scene = Scene(line=known.line, needs=known.needs, facts=collect.facts(again), floors=known.floors)
    found = [one for one in gates.judge(scene) if one.node == "spark-a1"]
    assert [(one.gate, one.verdict) for one in found] == [("reachable", "pass"), ("steps", "fail")]
    assert found[1].measured == f"The rank is absent: {said}"
    assert found[1].hint
    blocked = gates.blocking(tuple(found), scene, settled=True)
    assert [one.gate for one in blocked] == ["steps"]
    kept = collect.merge(bundle, bundle).nodes["spark-a1"]
    assert (kept.failed, kept.probes) == (bundle.nodes["spark-a1"].failed, ())


def _document(known: Context) -> Any:
    return edge.plain(collect.bundle(known, (_answer("spark-a0", probes=[]),)))


def test_a_bundle_of_another_schema_is_refused(known: Context) -> None:
    """A later schema may mean something else by the same words."""
    document = {**_document(known), "schema": 7}
    with pytest.raises(FileFault, match=r"schema: wanted one of 1; found 7"):
        edge.structure(document, Bundle, source="it")


def test_a_bundle_with_a_stranger_is_refused(known: Context) -> None:
    """A node that is not in the bundle's own line is named, with those that are."""
    document = _document(known)
    nodes = {"spark-z9" if name == "spark-a3" else name: one for name, one in document["nodes"].items()}
    with pytest.raises(
        FileFault, match=r"wanted nodes of line A \(.*spark-a3.*\), found records of spark-z9"
    ):
        edge.structure({**document, "nodes": nodes}, Bundle, source="it")
