"""Every fault that a practice cluster can show: what its bundle says offline, and how a boot ends on it."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bootcheck import gates
from bootcheck.facts import Bundle
from bootcheck.findings import exit_code
from launcher.survey import scene
from rehearsal.cluster import Scenario, scenarios
from sparkctl import edge

if TYPE_CHECKING:
    from conftest import Program

BUNDLES = Path(__file__).parent / "bundles"
SCENARIOS = {one.name: one for one in scenarios()}
FAULTS = {name: one for name, one in SCENARIOS.items() if one.fault}

# What only shows while ranks load or serve: a look at the nodes finds nothing.
AT_RUN_TIME = {name for name, one in FAULTS.items() if one.section in {"guard", "bench"}}

# One of each section is booted in the default tests, the others under --full.
EXAMPLES = {
    "held-memory",
    "latched-clock",
    "mtu-fallback",
    "other-image",
    "orphan-engine",
    "secret-in-environment",
    "rank-starves-node",
    "node-refuses",
}


def _bundle(name: str) -> Any:
    document = json.loads((BUNDLES / "healthy.json").read_text(encoding="utf-8"))
    fault = json.loads((BUNDLES / f"{name}.json").read_text(encoding="utf-8"))
    document["context"] = fault.get("context", document["context"])
    for node, changed in fault["nodes"].items():
        if "unreachable" in changed:
            document["nodes"][node] = changed
            continue
        probes = {one["probe"] for one in changed["probes"]}
        kept = [one for one in document["nodes"][node]["probes"] if one["probe"] not in probes]
        document["nodes"][node]["probes"] = [*kept, *changed["probes"]]
    return document, fault["findings"]


def test_the_healthy_bundle_passes() -> None:
    """The line that the faults are told apart from has none."""
    document = json.loads((BUNDLES / "healthy.json").read_text(encoding="utf-8"))
    found = gates.judge(scene(edge.structure(document, Bundle, source="healthy")))
    assert {one.verdict for one in found} == {"pass"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_bundle_tells_its_fault(name: str) -> None:
    """Judged offline, the bundle of a scenario gives the findings it was recorded with, its own gate among them."""
    document, wanted = _bundle(name)
    made = scene(edge.structure(document, Bundle, source=name))
    found = gates.judge(made)
    told = [
        {"node": one.node, "gate": one.gate, "verdict": one.verdict} for one in found if one.verdict != "pass"
    ]
    assert told == wanted
    fault = FAULTS[name]
    if fault.gate in {gate.name for gate in (gates.REACHABLE, *gates.GATES)}:
        assert fault.gate in {one["gate"] for one in told}
    if fault.ends and name not in AT_RUN_TIME:
        assert exit_code(found) == fault.ends


def test_every_fault_has_its_bundle() -> None:
    """A scenario without a bundle is not replayed, a bundle without a scenario is forgotten."""
    assert {path.stem for path in BUNDLES.glob("*.json")} == {"healthy", *FAULTS}


def test_every_section_has_its_example() -> None:
    """The default tests boot one fault of each section; those that only a bench meets have tests of their own."""
    sections = {one.section for one in FAULTS.values()} - {"bench"}
    assert {FAULTS[name].section for name in EXAMPLES} == sections


@pytest.fixture(
    params=[
        pytest.param(name, id=name, marks=() if name in EXAMPLES else (pytest.mark.full,))
        for name, one in FAULTS.items()
        if one.section != "bench"
    ]
)
def fault(request: pytest.FixtureRequest, program: "Program") -> Iterator[Scenario]:
    """A fault that the program's practice cluster shows."""
    name: str = request.param
    raised = program("rehearse", "up", "--scenario", name)
    assert raised.code == 0, raised.err
    yield FAULTS[name]
    assert program("rehearse", "down").code == 0


@pytest.mark.cluster
def test_a_boot_ends_as_its_fault_wants(program: "Program", fault: Scenario) -> None:
    """Exit code, node, what was measured, wanted and to be done, and no rank is left; settled or warned, it boots."""
    ended = program("boot", "--rehearsal", "--json")
    assert ended.code == fault.ends, ended.out + ended.err
    if fault.ends:
        document = ended.document
        assert document["node"] in fault.nodes
        assert "wanted" in document["why"] or fault.section == "guard"
        assert document["hint"]
        status = program("status", "--rehearsal", "--json").document
        assert not [one for one in status["ranks"] if one["state"] == "running"]
        logs = program("logs", "--rehearsal", "--json").document["logs"]
        assert all(bool(one["lines"]) == bool(document["logs"]) for one in logs if one["kept_of"])
        assert not document["logs"] or any(one["kept_of"] == document["boot"] for one in logs)


@pytest.mark.cluster
@pytest.mark.full
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_without_its_fault_the_same_line_boots(program: "Program", name: str) -> None:
    """What stopped the boot was the fault and nothing else: one of each section, since all are the healthy line then (below)."""
    assert program("rehearse", "up", "--scenario", name, "--mended").code == 0
    try:
        ended = program("boot", "--rehearsal")
        assert ended.code == 0, ended.out + ended.err
    finally:
        assert program("rehearse", "down").code == 0


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_scenario_is_the_healthy_one_but_for_its_nodes(name: str) -> None:
    """So that a boot that fails on it fails for its fault."""
    healthy = SCENARIOS["healthy"]
    mended = dataclasses.replace(FAULTS[name], nodes={})
    told = {key: getattr(mended, key) for key in ("pace", "seed", "boot_s", "noise", "levers", "nodes")}
    assert told == {key: getattr(healthy, key) for key in told}
