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
    assert {one.gate for one in found} == {gate.name for gate in (*gates.FIRST, *gates.GATES)}
    assert len(found) == 4 * (len(gates.FIRST) + len(gates.GATES))


def _said(path: Path, scene: MakeScene) -> tuple[Finding, ...]:
    told = json.loads(path.read_text())
    return gates.judge(scene(told["said"], told.get("floors"), told.get("needs")))


def test_a_gate_says_no_worse_than_it_declares(scene: MakeScene) -> None:
    """Over all scenes exactly those gates fail or block that say so of themselves; what only warns warns of blindness too."""
    found = [one for path in SCENES for one in _said(path, scene)]
    grave = {one.gate for one in found if one.verdict in {"fail", "unknown"}}
    declared = {gate.name for gate in gates.GATES if gate.worst == "fail"}
    assert grave - {"reachable"} == declared
    blind = [one for one in found if one.measured.startswith("could not be read: ")]
    assert {one.gate for one in blind} >= {"throttle", "link-speed", "network-profiles", "listeners", "swap"}
    assert {one.verdict for one in blind} == {"warn"}
    assert all(one.hint for one in blind)


@pytest.mark.parametrize(
    ("name", "gate"), [("ibv_devinfo_missing", "rdma"), ("memory_collapsed", "memory-free")]
)
def test_an_accepted_gate_does_not_block(scene: MakeScene, name: str, gate: str) -> None:
    """Failed or unknown, before settling and after, it is the owner's word; the others still block."""
    told = json.loads((SCENES[0].parent / f"{name}.json").read_text())
    made = scene(told["said"], told.get("floors"), told.get("needs"))
    found = gates.judge(made)
    for settled in (False, True):
        blocked = {one.gate for one in gates.blocking(found, made, settled=settled)}
        left = {one.gate for one in gates.blocking(found, made, settled=settled, accepted=frozenset({gate}))}
        assert left == blocked - {gate}
    assert gate in {one.gate for one in gates.blocking(found, made, settled=True)}


def test_only_a_failure_that_settling_cures_is_marked(scene: MakeScene) -> None:
    """Of the engine's two faults, one that is ending is cured by waiting, one that is nobody's is not."""
    marks = {
        name: {
            one.gate: one.settles
            for one in _said(SCENES[0].parent / f"{name}.json", scene)
            if one.verdict == "fail" and one.gate in {"gpu-quiet", "engine-processes"}
        }
        for name in ("gpu_not_released_yet", "engine_that_ends", "orphan_engine")
    }
    assert marks == {
        "gpu_not_released_yet": {"gpu-quiet": True, "engine-processes": True},
        "engine_that_ends": {"gpu-quiet": True, "engine-processes": True},
        "orphan_engine": {"gpu-quiet": False, "engine-processes": False},
    }


def test_settling_cures_failures_and_never_unknowns(scene: MakeScene) -> None:
    """A full page cache lets a boot go on to settle and no further; memory that cannot be read stops it at once."""
    both = {"memory-available", "memory-free"}
    case = json.loads((Path(__file__).parent / "cases" / "memory" / "cache_heavy.json").read_text())
    cached = scene({"spark-a1": {"memory": {"stdout": case["stdout"]}}})
    assert gates.blocking(gates.judge(cached), cached, settled=False) == ()
    assert {one.gate for one in gates.blocking(gates.judge(cached), cached, settled=True)} == both
    unread = scene({"spark-a1": {"memory": {"stdout": "nonsense"}}})
    blocked = gates.blocking(gates.judge(unread), unread, settled=False)
    assert {one.gate for one in blocked} == both | {"cma"}


def test_the_worst_verdict_decides() -> None:
    """A failure outweighs not knowing, which outweighs a warning; nothing at all is a pass."""

    def one(verdict: str) -> Finding:
        return Finding(node="n", gate="g", verdict=verdict, measured="", wanted="", origin="")  # type: ignore[arg-type]

    assert worst(()) == "pass"
    assert worst((one("warn"), one("pass"))) == "warn"
    assert worst((one("unknown"), one("warn"))) == "unknown"
    assert worst((one("fail"), one("unknown"))) == "fail"
    assert [exit_code((one(verdict),)) for verdict in ("pass", "warn", "fail", "unknown")] == [0, 0, 1, 3]
