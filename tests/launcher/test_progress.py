"""Progress: stages from log lines, and who is named for being silent."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher import progress
from launcher.progress import SILENCES, RankProgress, Stage, describe, stuck, take

HERE = Path(__file__).parent
RAW = HERE.parents[0] / "field" / "raw"
STAGES: tuple[Stage, ...] = tuple(SILENCES)


def rank(
    number: int = 0, *, stage: Stage = "starting", since_s: float = 0.0, spoke_s: float = 0.0
) -> RankProgress:
    """Return a rank of the line."""
    name = f"sparkctl-a-rank{number}"
    return RankProgress(node=f"spark-a{number}", name=name, since_s=since_s, spoke_s=spoke_s, stage=stage)


def steps(name: str) -> list[tuple[str, str]]:
    """Return what each line of a case shows and the line."""
    lines = (HERE / "progress" / f"{name}.txt").read_text().splitlines()
    cases = [line.partition("| ") for line in lines if not line.startswith("#")]
    return [(" ".join(shown.split()), line) for shown, _, line in cases]


@pytest.mark.parametrize("name", ["head", "worker"])
def test_every_line_tells_the_stage(name: str) -> None:
    """A whole boot, line by line: the stage, and the share of it where the line has one."""
    now = rank()
    seen = []
    for at_s, (_, line) in enumerate(steps(name)):
        now = take(now, line, float(at_s))
        seen.append(now.stage if now.share is None else f"{now.stage} {now.share}")
    assert seen == [shown for shown, _ in steps(name)]


@pytest.mark.parametrize(
    ("stage", "line", "becomes"),
    [
        ("starting", "WARNING FlashInfer is available, JIT kernels are built on first use", "starting"),
        ("joining", "Using torch.compile, ninja was found", "joining"),
        ("loading", "Using the JIT backend of FlashInfer", "loading"),
        ("loading", "vLLM is using nccl==2.28.3", "loading"),
        ("starting", "[Autotuner]: Autotuning process starts ...", "compiling"),
        ("profiling", "flashinfer.jit: building with ninja", "compiling"),
        ("compiling", "Initial profiling/warmup run took 3.00 s", "profiling"),
        ("capturing", "[Autotuner]: Autotuning process starts ...", "compiling"),
        ("profiling", "Loading weights took 3 seconds", "profiling"),
        ("serving", "the torch.compile cache was written", "serving"),
        ("serving", "Available KV cache memory: 22.56 GiB", "serving"),
    ],
)
def test_a_stage_never_goes_back_a_step(stage: Stage, line: str, becomes: Stage) -> None:
    """A remark that sounds like an earlier step, or like a compiler before there is a model, changes nothing but the last words."""
    now = take(rank(stage=stage), line, 5.0)
    assert (now.stage, now.last, now.spoke_s) == (becomes, line, 5.0)
    assert now.since_s == (0.0 if becomes == stage else 5.0)


def test_a_stage_counts_from_its_first_line() -> None:
    """Another line of the same stage is news, but no new stage."""
    first = take(rank(), "Loading safetensors checkpoint shards:  10% Completed", 5.0)
    second = take(first, "Loading safetensors checkpoint shards:  20% Completed", 9.0)
    assert (first.since_s, first.spoke_s) == (5.0, 5.0)
    assert (second.since_s, second.spoke_s, second.share) == (5.0, 9.0, 0.2)


def fed(name: str, now: RankProgress, each_s: float) -> RankProgress:
    """Return a rank that has written one of the raw logs, a line every so many seconds."""
    for at, line in enumerate((RAW / name).read_text().splitlines(), 1):
        now = take(now, line, at * each_s)
    return now


def test_compiling_is_not_hanging() -> None:
    """An autotuner that runs for half an hour beside a waiting engine is within its limit; at the end it serves."""
    lines = (RAW / "54-shm-broadcast-compiling.txt").read_text().splitlines()
    now = take(rank(), lines[0], 0.0)
    for minute in range(1, 36):
        now = take(now, lines[1], minute * 60.0)
    assert (now.stage, now.spoke_s) == ("compiling", 0.0)
    assert stuck((now,), 36 * 60.0, {}, {}) is None
    assert fed("54-shm-broadcast-compiling.txt", rank(), 60.0).stage == "serving"


def test_a_waiting_engine_says_nothing_by_itself() -> None:
    """The same line for ever neither counts as news nor as a fault: the stage's own limit ends it."""
    line = (RAW / "54-shm-broadcast-compiling.txt").read_text().splitlines()[1]
    now = replace(rank(stage="compiling"), spoke_s=0.0)
    for minute in range(1, 60):
        now = take(now, line, minute * 60.0)
    found = stuck((now,), 3600.0, {}, {})
    assert found is not None
    assert "has said nothing new for 3600 s while compiling" in found.said
    assert "within 2700 s" in found.said


def test_a_failed_transfer_is_a_hang() -> None:
    """NCCL's own word that a link failed shortens the limit to a minute, also for a rank that would wait for another."""
    now = fed("54b-shm-broadcast-dead-link.txt", rank(stage="profiling"), 20.0)
    behind = rank(1, stage="loading", spoke_s=60.0)
    assert now.broken
    assert stuck((now, behind), 110.0, {}, {}) is None
    found = stuck((now, behind), 125.0, {}, {})
    assert found is not None
    assert (found.node, "lost a transfer of NCCL 65 s ago" in found.said) == ("spark-a0", True)
    assert "kernel logs for the network card" in found.hint


def test_a_transfer_that_failed_once_is_forgotten_when_work_goes_on() -> None:
    """A line of ordinary work after the warning shows that the link recovered."""
    now = fed("54b-shm-broadcast-dead-link.txt", rank(stage="profiling"), 20.0)
    assert take(now, "Available KV cache memory: 22.56 GiB", 90.0).broken == ""


def test_a_group_that_does_not_join_is_named_by_its_limit() -> None:
    """Both ranks stop at the same line; the one that was silent longer is named, with its last line and the remedy."""
    both = (fed("57-sglang-init-freeze.txt", rank(), 1.0), fed("57-sglang-init-freeze.txt", rank(1), 2.0))
    assert {one.stage for one in both} == {"joining"}
    assert stuck(both, 600.0, {}, {}) is None
    found = stuck(both, 700.0, {}, {})
    assert found is not None
    assert (found.node, found.name) == ("spark-a0", "sparkctl-a-rank0")
    assert "while joining, wanted a line or a move of memory within 660 s" in found.said
    assert "CustomAllreduce is disabled" in found.said
    assert "ready.silence_s.joining" in found.hint


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_has_its_limit_and_the_recipe_may_set_another(stage: Stage) -> None:
    """Just below the limit nobody is named, just above it the rank is; the recipe's number counts where it has one."""
    moved = {"spark-a0": 0.0}
    limit_s = SILENCES[stage].limit_s
    assert stuck((rank(stage=stage),), limit_s - 1, moved, {}) is None
    assert stuck((rank(stage=stage),), limit_s + 1, moved, {}) is not None
    assert stuck((rank(stage=stage),), limit_s + 1, moved, {stage: limit_s * 2}) is None
    assert stuck((rank(stage=stage),), 11.0, moved, {stage: 10.0}) is not None


def test_memory_that_moves_is_no_silence() -> None:
    """A rank that draws no bar is heard through its node's memory; without samples it is given more time."""
    now = rank(stage="loading")
    assert stuck((now,), 1000.0, {"spark-a0": 900.0}, {}) is None
    assert stuck((now,), 1000.0, {"spark-a0": 0.0}, {}) is not None
    assert stuck((now,), 1000.0, {}, {}) is None
    assert stuck((now,), 1501.0, {}, {}) is not None


def test_whoever_waits_for_a_slower_rank_is_not_named() -> None:
    """The head has loaded in minutes and says nothing while a worker loads over NFS for a quarter of an hour."""
    head, worker = rank(stage="capturing"), rank(1, stage="loading", spoke_s=3000.0)
    assert stuck((head, worker), 3300.0, {}, {}) is None
    found = stuck((head, replace(worker, spoke_s=0.0)), 3300.0, {}, {})
    assert found is not None
    assert found.node == "spark-a1"


def test_the_wait_for_a_slower_rank_is_not_counted_afterwards() -> None:
    """When the slow one has caught up, both get the whole limit of the stage they are in."""
    head, worker = rank(stage="capturing"), rank(1, stage="capturing", since_s=3000.0, spoke_s=3000.0)
    assert stuck((head, worker), 3800.0, {}, {}) is None
    assert stuck((head, worker), 3901.0, {}, {}) is not None


def test_a_line_that_is_up_and_does_not_answer_is_named() -> None:
    """Counted from when the last rank was up, whatever is written meanwhile."""
    head = replace(rank(stage="serving"), last="Application startup complete.", spoke_s=900.0)
    worker = rank(1, stage="serving", since_s=700.0, spoke_s=700.0)
    assert stuck((head, worker), 990.0, {}, {}) is None
    found = stuck((head, worker), 1010.0, {}, {})
    assert found is not None
    assert "up for 310 s, wanted an answer of the API within 300 s" in found.said
    assert "api_host" in found.hint


def test_our_own_looks_are_no_news() -> None:
    """The server logs every question; ours must not keep it alive."""
    now = take(
        rank(stage="serving"),
        '(APIServer pid=1) INFO:     10.0.0.9:51002 - "GET /health HTTP/1.1" 200 OK',
        50.0,
    )
    assert now.spoke_s == 0.0


def test_secrets_stay_out_of_what_is_said() -> None:
    """A last line may hold the arguments of the server."""
    now = take(rank(), "non-default args: {'api_key': ['EXAMPLE-not-a-real-key']}", 1.0)
    found = stuck((now,), 1000.0, {}, {})
    assert found is not None
    assert "EXAMPLE" not in found.said
    assert "non-default args" in found.said


def test_describe_names_what_differs() -> None:
    """One word when all do the same, each node otherwise."""
    loading = replace(rank(stage="loading"), share=0.41)
    assert describe((rank(), rank(1))) == "all starting"
    assert describe((loading, rank(1, stage="joining"))) == "spark-a0 loading (41%), spark-a1 joining"


@given(st.text(), st.floats(0, 1e6))
def test_any_line_is_taken(line: str, at_s: float) -> None:
    """No text breaks it, and a share is a share."""
    now = take(rank(), line, at_s)
    assert now.stage in STAGES
    assert now.share is None or 0 <= now.share <= 1
    assert progress.stuck((now,), at_s + 1e6, {}, {}) is not None
