"""Ranks that go wrong on their node: real processes, seen from outside through docker, /proc/meminfo and HTTP."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import httpx
import pytest

from rehearsal import containers, node
from rehearsal.faces.system import memory_kib

from .conftest import Line, metric, settles, state

pytestmark = pytest.mark.cluster

GIB_KIB = 1024**2


@contextmanager
def going_wrong(line: Line, name: str, *, pace: float = 15, **traits: str) -> Iterator[None]:
    """Start the four ranks, one node's with something in store for it, and remove them afterwards."""
    home = line.cluster.home
    law = node.read_json(home / "law.json")
    sound = node.read_json(home / name / "state.json")
    node.write_json(home / name / "state.json", sound | {"traits": sound["traits"] | traits})
    node.write_json(home / "law.json", {**law, "pace": pace})
    try:
        for rank in (3, 2, 1, 0):
            assert line.ssh(f"spark-a{rank}", line.rank_command(rank)).code == 0
        yield
    finally:
        line.down()
        node.write_json(home / name / "state.json", sound)
        node.write_json(home / "law.json", law)


def log(line: Line, rank: int) -> str:
    """Return what a rank has printed."""
    return line.ssh(f"spark-a{rank}", f"docker logs sparkctl-a-rank{rank}").out


def test_a_rank_that_dies_while_loading_ends_the_line(line: Line) -> None:
    """Its last line is the error; the head ends when it comes to wait for it, the other workers with the head."""
    with going_wrong(line, "spark-a2", rank_fault="dies-loading"):
        codes = [
            line.ssh(f"spark-a{rank}", f"docker wait sparkctl-a-rank{rank}").out for rank in (2, 0, 1, 3)
        ]
        assert codes == ["1\n", "1\n", "0\n", "0\n"]
        last = log(line, 2).splitlines()[-1]
        assert " ERROR " in last
        assert "SafetensorError: Error while deserializing header" in last
        assert "Loading weights took" not in log(line, 2)
        assert "VllmWorker-2 died unexpectedly" in log(line, 0).splitlines()[-1]


def test_a_silent_worker_stays_and_its_head_says_what_vllm_says(line: Line) -> None:
    """Half of the weights and no further word; the others go on to the profile run and wait there."""
    with going_wrong(line, "spark-a1", rank_fault="silent-loading", pace=150):
        assert settles(lambda: "No available shared memory broadcast block" in log(line, 0))
        assert log(line, 1).splitlines()[-1].endswith("Starting to load model /models/m...")
        assert "Available KV cache memory" in log(line, 3)
        assert [state(line, f"spark-a{rank}", rank) for rank in range(4)] == ["running 0\n"] * 4
        held = containers.load(line.cluster.home / "spark-a1").gpu_mib
        assert held == pytest.approx(68.9 / 2 * 1024, abs=1)


def test_a_silent_head_stops_at_half_of_its_shards(line: Line) -> None:
    """The bar of the first rank ends where the rank does."""
    with going_wrong(line, "spark-a0", rank_fault="silent-loading", pace=150):
        assert settles(lambda: "Available KV cache memory" in log(line, 3))
        assert " 50% Completed | 4/8" in log(line, 0).splitlines()[-1]


def test_a_starving_node_falls_as_reported_until_its_rank_is_killed(line: Line) -> None:
    """MemAvailable falls by about 13 GiB in 2 s of the line's to under 1 GiB, as anonymous memory; a kill gives it back."""
    root = line.cluster.home / "spark-a1"
    fresh = memory_kib(root)["MemAvailable"]
    with going_wrong(line, "spark-a1", rank_fault="starves"):
        seen = [(time.monotonic(), memory_kib(root))]
        while seen[-1][1]["MemAvailable"] > GIB_KIB and seen[-1][0] - seen[0][0] < 10:
            time.sleep(0.01)
            seen.append((time.monotonic(), memory_kib(root)))
        assert seen[-1][1]["MemAvailable"] < GIB_KIB
        assert seen[-1][1]["AnonPages"] > 60 * GIB_KIB
        steep = [
            (at, now["MemAvailable"]) for at, now in seen if GIB_KIB < now["MemAvailable"] < 60 * GIB_KIB
        ]
        fall_gib = (steep[0][1] - steep[-1][1]) / GIB_KIB
        assert 3 < fall_gib / ((steep[-1][0] - steep[0][0]) * 15) < 7
        # On a machine that is busy two looks may lie far apart; only near ones tell a slope from a step.
        near = [a[1] - b[1] for a, b in pairwise(steep) if b[0] - a[0] < 0.05]
        assert max(near, default=0) < 8 * GIB_KIB, "a slope, no step"
        assert state(line, "spark-a1", 1) == "running 0\n"
        line.ssh("spark-a1", "docker kill sparkctl-a-rank1")
        assert memory_kib(root)["MemAvailable"] == pytest.approx(fresh, rel=0.02)


def test_a_killer_ends_a_rank_that_takes_too_much(line: Line) -> None:
    """A line that would boot loses the rank at the killer's limit: 143, the journal says why, the memory is back."""
    root = line.cluster.home / "spark-a1"
    fresh = memory_kib(root)["MemAvailable"]
    with going_wrong(line, "spark-a1", killer="/usr/bin/earlyoom -m 25 -s 100"):
        assert line.ssh("spark-a1", "docker wait sparkctl-a-rank1").out == "143\n"
        noted = line.ssh("spark-a1", "journalctl -b --no-pager -n 3").out
        assert "at or below SIGTERM limits: mem 25.00%, swap 100.00%" in noted
        assert '"VLLM::Worker_TP": badness' in noted
        assert memory_kib(root)["MemAvailable"] == pytest.approx(fresh, rel=0.02)


def test_a_line_freezes_under_the_first_request_after_the_smokes(line: Line) -> None:
    """/health is green, a request runs, no counter moves; another request only adds to those that run."""
    with going_wrong(line, "spark-a3", rank_fault="freezes"):
        assert settles(lambda: "Application startup complete" in log(line, 0))
        assert [line.ask("Count from 1 to 8.").status_code for _ in range(3)] == [200] * 3
        counters = ("prompt_tokens_total", "generation_tokens_total", "spec_decode_num_drafts_total")
        before = [metric(line, name) for name in counters]
        for running in (1, 2):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(
                    f"{line.url}/v1/chat/completions",
                    json={"model": "m", "messages": [{"role": "user", "content": "hello"}]},
                    timeout=0.5,
                )
            assert metric(line, "num_requests_running") == running
        assert [metric(line, name) for name in counters] == before
        assert httpx.get(f"{line.url}/health").status_code == 200
        query = "nvidia-smi --query-gpu=power.draw,utilization.gpu --format=csv,noheader,nounits"
        for name in line.cluster.nodes:
            watts, percent = map(float, line.ssh(name, query).out.split(","))
            assert (watts < 22, percent > 90) == (True, True), "a collective spins on every rank"
