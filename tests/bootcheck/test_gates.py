"""Gates on whole lines: a scene file says what single probes said, and which findings must not pass."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bootcheck import gates
from bootcheck.findings import Finding, exit_code, worst
from bootcheck.gates.gate import Scene

SCENES = sorted((Path(__file__).parent / "scenes").glob("*.json"))

MakeScene = Callable[..., Scene]


@pytest.mark.parametrize("path", SCENES, ids=lambda path: path.stem)
def test_a_scene_gives_its_findings(path: Path, scene: MakeScene) -> None:
    """Exactly the findings of the scene file differ from pass, and each says what the file wants it to say."""
    told = json.loads(path.read_text())
    made = scene(told["said"], told.get("floors"), told.get("needs"))
    found = gates.judge(made)
    differing = {(one.node, one.gate): one for one in found if one.verdict != "pass"}
    wanted = {(one["node"], one["gate"]): one for one in told["findings"]}
    assert {key: one.verdict for key, one in differing.items()} == {
        key: one["verdict"] for key, one in wanted.items()
    }
    for key, one in wanted.items():
        assert one["measured"] in differing[key].measured
        assert differing[key].hint, "what is wrong must say its remedy"
        assert differing[key].origin
    assert exit_code(found) == told["exit_code"]
    assert {one.gate for one in gates.blocking(found, made, settled=False)} == set(
        told["blocks_before_settling"]
    )


def test_a_healthy_line_passes_every_gate(scene: MakeScene) -> None:
    """With nothing wrong every gate passes on every node, and every gate was judged."""
    found = gates.judge(scene({}))
    assert {one.verdict for one in found} == {"pass"}
    assert {one.gate for one in found} == {"reachable", *(gate.name for gate in gates.GATES)}
    assert len(found) == 4 * (1 + len(gates.GATES))


def test_settling_cures_failures_and_never_unknowns(scene: MakeScene) -> None:
    """A full page cache lets a boot go on to settle and no further; memory that cannot be read stops it at once."""
    both = {"memory-available", "memory-free"}
    case = json.loads((Path(__file__).parent / "cases" / "memory" / "cache_heavy.json").read_text())
    cached = scene({"spark-a1": {"memory": {"stdout": case["stdout"]}}})
    assert gates.blocking(gates.judge(cached), cached, settled=False) == ()
    assert {one.gate for one in gates.blocking(gates.judge(cached), cached, settled=True)} == both
    unread = scene({"spark-a1": {"memory": {"stdout": "nonsense"}}})
    blocked = gates.blocking(gates.judge(unread), unread, settled=False)
    assert {one.gate for one in blocked} == both | {"cma", "swap"}


def test_the_worst_verdict_decides() -> None:
    """A failure outweighs not knowing, which outweighs a warning; nothing at all is a pass."""

    def one(verdict: str) -> Finding:
        return Finding(node="n", gate="g", verdict=verdict, measured="", wanted="", origin="")  # type: ignore[arg-type]

    assert worst(()) == "pass"
    assert worst((one("warn"), one("pass"))) == "warn"
    assert worst((one("unknown"), one("warn"))) == "unknown"
    assert worst((one("fail"), one("unknown"))) == "fail"
    assert [exit_code((one(verdict),)) for verdict in ("pass", "warn", "fail", "unknown")] == [0, 0, 1, 3]
