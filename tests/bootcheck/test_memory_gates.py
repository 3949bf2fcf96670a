"""What the memory gates say beyond their verdicts: who holds memory, what the line can do, when earlyoom acts."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootcheck import gates
from bootcheck.findings import Finding
from bootcheck.gates.gate import Scene
from bootcheck.gates.killer import Threshold, earlyoom
from bootcheck.probes.memory import Memory
from sparkctl.units import GIB

MakeScene = Callable[..., Scene]

SHORT = "MemTotal: 127600412 kB\nMemFree: 2904980 kB\nMemAvailable: 54528312 kB\nCached: 50980224 kB\n"
TABLE = (
    "      1       0   86412   14212 /sbin/init splash\n"
    "  21990       1    9120 3493888 /usr/bin/VLLM::EngineCore\n"
    "  30001       1    9120 6291456 python3 -m something\n"
    "  30002       1    9120  120000 gnome-shell\n"
)


def _found(made: Scene, gate: str, node: str = "spark-a1") -> Finding:
    return next(one for one in gates.judge(made) if (one.gate, one.node) == (gate, node))


def _short(**more: Mapping[str, Any]) -> dict[str, Any]:
    return {"spark-a1": {"memory": {"stdout": SHORT}, "processes": {"stdout": TABLE}, **more}}


def test_short_memory_names_its_residents(scene: MakeScene) -> None:
    """The largest processes are named, on the host and on the GPU; one whose memory is not told is not zero."""
    header = "pid, process_name, used_gpu_memory [MiB]\n"
    apps = header + "21990, VLLM::EngineCore, 104277 MiB\n77, python3, [N/A]\n"
    hint = _found(scene(_short(**{"gpu-processes": {"stdout": apps}})), "memory-free").hint
    assert "python3 pid 30001 6.0 GiB, VLLM::EngineCore pid 21990 3.3 GiB" in hint
    assert "VLLM::EngineCore pid 21990 101.8 GiB on the GPU, python3 pid 77 ? GiB on the GPU" in hint
    assert "gnome-shell" not in hint


def test_residents_that_cannot_be_read_are_left_out(scene: MakeScene) -> None:
    """Neither table: the hint says what to do without naming anybody."""
    told = _short(**{"processes": {"stdout": ""}, "gpu-processes": {"stdout": ""}})
    assert _found(scene(told), "memory-free").hint == (
        "drop the page cache, as a boot does where sudo lets it (docs/ritual.md has the two rules), or stop what holds memory"
    )


def test_the_lowest_ceiling_of_the_line_is_told(scene: MakeScene) -> None:
    """One recipe serves all nodes, so the utilisation that would pass is the lowest of them."""
    worse = {"spark-a2": {"memory": {"stdout": SHORT.replace("54528312", "40000000")}}}
    found = _found(scene({**_short(), **worse}), "memory-available")
    assert "up to 0.42 passes" in found.measured
    assert "set memory.utilisation to 0.31 or less, which every node of the line passes now" in found.hint


def test_cuda_memory_far_from_memfree_is_said(scene: MakeScene) -> None:
    """CUDA's own figure stands beside the others, with the gap when there is one, and not when nobody asked."""
    line = '{"probe": "gemv", "gb_s": [230.0, 230.1, 230.2], "cuda_free": %d, "cuda_total": 130662821888}\n'
    far = _found(scene({"spark-a1": {"gemv": {"stdout": line % (102 * GIB)}}}), "memory-free")
    near = _found(scene({"spark-a1": {"gemv": {"stdout": line % (115 * GIB)}}}), "memory-free")
    unasked = _found(scene({"spark-a1": {"gemv": {"rc": None, "stderr": "not run"}}}), "memory-free")
    assert (far.verdict, near.verdict) == ("pass", "pass")
    assert far.measured.endswith("CUDA saw 102.0 GiB free, 14.3 GiB less than MemFree")
    assert near.measured.endswith("CUDA saw 115.0 GiB free")
    assert unasked.measured.endswith("CUDA was not asked")


def test_a_serving_node_is_not_told_to_stop_its_own_rank(scene: MakeScene) -> None:
    """Beside a rank of this line the remedy is ours: sparkctl down."""
    rank = '[{"Name": "/sparkctl-a-rank1", "State": {"Status": "running"}, "Config": {"Labels": {"sparkctl.line": "A"}}}]'
    made = scene(_short(containers={"stdout": rank}))
    if not gates.is_serving(made.of(made.line.nodes[1])):
        pytest.fail("the scene's container is not read as a rank of this line")
    assert "sparkctl down" in _found(made, "memory-free").hint


@pytest.mark.parametrize(
    ("command", "available_gib", "swap_percent"),
    [
        ("/usr/bin/earlyoom", 10.0, 10.0),
        ("earlyoom -r 3600 -m 5 -s 20,10", 5.0, 20.0),
        ("earlyoom -m5,2", 5.0, 10.0),
        ("earlyoom -M 2097152,1048576 -s 100", 2.0, 100.0),
        ("earlyoom -m 5 -M 2097152", 2.0, 10.0),
        ("earlyoom -m 1.5 -M 20971520", 1.5, 10.0),
        ("earlyoom -S 1048576", 10.0, 5.0),
        ("earlyoom -m 5 -m 7", 7.0, 10.0),
    ],
)
def test_earlyoom_is_read_as_it_reads_itself(command: str, available_gib: float, swap_percent: float) -> None:
    """Shares and sizes, the lower of both, the first of a pair, the last of a repeated option, the defaults."""
    memory = Memory(
        total=100 * GIB, free=90 * GIB, available=90 * GIB, cached=0, swap_total=20 * GIB, swap_free=0
    )
    assert earlyoom(command, memory) == Threshold(
        available=pytest.approx(available_gib * GIB), swap_percent=pytest.approx(swap_percent)
    )


@pytest.mark.parametrize("command", ["earlyoom -m many", "earlyoom -M", "earlyoom -s nan"])
def test_an_earlyoom_that_cannot_be_read_is_not_guessed(command: str) -> None:
    """Options without a number give nothing, and not the defaults."""
    memory = Memory(total=100 * GIB, free=90 * GIB, available=90 * GIB, cached=0)
    assert earlyoom(command, memory) is None


@given(st.text(max_size=60), st.sampled_from(["", "-m", "-M ", "-s ", "-S "]))
def test_any_earlyoom_is_read_or_not(options: str, flag: str) -> None:
    """Whatever stands behind its name, it is a threshold or nothing."""
    memory = Memory(total=100 * GIB, free=90 * GIB, available=90 * GIB, cached=0)
    found = earlyoom(f"earlyoom {flag}{options}", memory)
    assert found is None or found.available >= 0


def test_a_rank_larger_than_its_node_is_refused_although_vllm_would_start(scene: MakeScene) -> None:
    """Where vLLM's own check passes and the rank is predicted to need more than there is, only that rank's node fails."""
    made = scene({}, needs={"memory_gib": {"spark-a1": 90.0, "spark-a2": 118.0}})
    too_large = _found(made, "memory-available", "spark-a2")
    assert (_found(made, "memory-available").verdict, too_large.verdict) == ("pass", "fail")
    assert too_large.wanted == (
        "at least 118.0 GiB, the least that this rank is predicted to hold (sparkctl predict memory)"
    )
    assert "a smaller memory.kv_cache_gib" in too_large.hint


def test_a_node_that_fails_vllms_check_is_told_of_that_first(scene: MakeScene) -> None:
    """The utilisation that would pass is the more useful word."""
    found = _found(scene(_short(), needs={"memory_gib": {"spark-a1": 118.0}}), "memory-available")
    assert "set memory.utilisation" in found.hint
