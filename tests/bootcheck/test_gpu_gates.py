"""What the GPU gates say beyond their verdicts: an idle clock proves nothing, and each fault has its own remedy."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bootcheck import gates
from bootcheck.findings import Finding
from bootcheck.gates.gate import Scene

MakeScene = Callable[..., Scene]
CASES = Path(__file__).parent / "cases"


def _found(made: Scene, gate: str) -> Finding:
    return next(one for one in gates.judge(made) if (one.gate, one.node) == (gate, "spark-a1"))


def _said(probe: str, case: str) -> dict[str, dict[str, dict[str, str]]]:
    told = json.loads((CASES / probe / f"{case}.json").read_text())
    return {"spark-a1": {probe: {"stdout": told["stdout"]}}}


@pytest.mark.parametrize(
    ("case", "is_remarked"),
    [("locked_clock_at_idle", True), ("idle", False), ("h200_idle", False), ("h200_burning", False)],
)
def test_a_high_clock_at_idle_is_remarked(scene: MakeScene, case: str, is_remarked: bool) -> None:  # noqa: FBT001
    """P0 and a high clock at 0 % is neither work nor health; a low clock or a busy GPU needs no word."""
    found = _found(scene(_said("gpu", case)), "gpu")
    assert found.verdict == "pass"
    assert ("idle at a high clock, which says nothing of its health" in found.measured) is is_remarked


def test_latched_clock_and_slow_state_have_their_own_remedies(scene: MakeScene) -> None:
    """Only the latch wants its adapter unplugged, and only the slow state goes by keeping the GPU busy."""
    latched = _found(scene(_said("burn", "latched")), "burn")
    slow = _found(scene(_said("gemv", "after_a_warning")), "gemv")
    assert (latched.verdict, slow.verdict) == ("fail", "fail")
    assert "unplug its AC adapter for 60 s" in latched.hint
    assert "adapter" not in slow.hint
    assert "keep the GPU busy" in slow.hint


def test_neither_load_sees_the_other_fault(scene: MakeScene) -> None:
    """A latched clock with a sound GEMV fails the burn alone, and the other way round."""
    assert _found(scene(_said("burn", "latched")), "gemv").verdict == "pass"
    assert _found(scene(_said("gemv", "after_a_warning")), "burn").verdict == "pass"


def test_the_burn_names_every_floor_with_its_origin(scene: MakeScene) -> None:
    """Three floors, three origins, each with its unit."""
    found = _found(scene({}), "burn")
    assert found.wanted == "at least 50 TFLOPS, 1200 MHz and 30 W under load"
    assert all(f"{unit}: " in found.origin for unit in ("TFLOPS", "MHz", "W"))
