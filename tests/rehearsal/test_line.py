"""A practice line: four ranks meet over TCP, load, serve by the model, and end."""

import json
import re

import httpx
import pytest

from rehearsal import model, processes

from .conftest import Line, boot_speed, kib, lateness, metric, settles, state, streamed, token

pytestmark = pytest.mark.cluster


STAGES = (
    "Starting to load model",
    "Loading safetensors checkpoint shards:   0% Completed | 0/8",
    "Loading safetensors checkpoint shards: 100% Completed | 8/8",
    "Loading weights took",
    "for vLLM's torch.compile",
    "torch.compile took",
    "Available KV cache memory",
    "Autotuning process starts",
    "Autotuning process ends",
    "Capturing CUDA graphs",
    "Graph capturing finished",
    "Application startup complete",
)
LONG = "The tide came in and went out again while nobody looked. " * 300


def cached(reply: httpx.Response) -> int:
    """Return how many prompt tokens the prefix cache had."""
    return int(reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_a_line_boots_serves_and_stops(line: Line) -> None:
    """Four ranks meet; faces agree; a stream's usage agrees with /metrics; a stop leaves no process."""
    before = line.ssh("spark-a1", "cat /proc/meminfo").out
    line.up()
    try:
        log = line.ssh("spark-a1", "docker logs --tail 50 sparkctl-a-rank1").out
        assert "Available KV cache memory: 12.00 GiB" in log
        assert "checkpoint shards" not in log, "the first rank alone draws bars"
        head = line.ssh("spark-a0", "docker logs sparkctl-a-rank0").out
        said = (
            "GPU KV cache size: 2,561,073 tokens, Maximum concurrency for 300,000 tokens per request: 8.54x"
        )
        assert said in head
        assert [head.index(stage) for stage in STAGES] == sorted(head.index(stage) for stage in STAGES)
        assert re.search(r"shards:  12% Completed \| 1/8 \[00:01<00:08,  1\.16s/it\]$", head, re.MULTILINE)
        apps = line.ssh(
            "spark-a1", "nvidia-smi --query-compute-apps=process_name,used_gpu_memory --format=csv,noheader"
        ).out
        used_mib = int(apps.split(", ")[1].split()[0])
        assert apps.startswith("VLLM::Worker_TP1")
        fallen = kib(before, "MemAvailable") - kib(
            line.ssh("spark-a1", "cat /proc/meminfo").out, "MemAvailable"
        )
        assert fallen / 1024 == pytest.approx(used_mib, rel=0.1)

        _, _, texts, usage = streamed(line, "Tell a long story about rain.", 150)
        assert usage["completion_tokens"] == 150
        assert 1 < 150 / len(texts) < 6
        assert metric(line, "generation_tokens_total") == 150
        assert metric(line, "prompt_tokens_total") == usage["prompt_tokens"]
        assert (
            line.ask("Count from 1 to 8.").json()["choices"][0]["message"]["content"]
            == "1, 2, 3, 4, 5, 6, 7, 8"
        )
        assert line.ask("hello", model="other").status_code == 404

        inspected = json.loads(line.ssh("spark-a0", "docker inspect sparkctl-a-rank0").out)[0]
        assert inspected["State"]["Status"] == "running"
        assert inspected["Config"]["Labels"]["sparkctl.rank"] == "0"
        listed = line.ssh(
            "spark-a0", "docker ps -a --no-trunc --filter label=sparkctl.line=A --format '{{json .}}'"
        ).out
        assert json.loads(listed)["Names"] == "sparkctl-a-rank0"
        again = line.ssh("spark-a0", line.rank_command(0))
        assert (again.code, "Conflict. The container name" in again.err) == (125, True)

        assert line.ssh("spark-a0", "docker stop -t 5 sparkctl-a-rank0").out == "sparkctl-a-rank0\n"
        assert line.ssh("spark-a3", "docker wait sparkctl-a-rank3").out == "0\n", (
            "a headless rank ends with its head"
        )
        ends = [
            line.ssh(f"spark-a{rank}", f"docker logs --tail 1 sparkctl-a-rank{rank}").out for rank in (0, 3)
        ]
        assert "Shutting down on SIGTERM" in ends[0]
        assert "Parent process exited" in ends[1]
        assert (
            json.loads(line.ssh("spark-a0", "docker inspect sparkctl-a-rank0").out)[0]["State"]["ExitCode"]
            == 0
        )
    finally:
        line.down()
    left = (line.cluster.pid, "the fork server")
    assert settles(lambda: len(processes.marked(token(line))) == len(left))
    assert line.ssh("spark-a1", "docker ps -aq").out == ""
    assert kib(line.ssh("spark-a1", "cat /proc/meminfo").out, "Cached") > 40 * 1024**2, (
        "weights stay in the page cache"
    )


def test_served_times_follow_the_model(line: Line) -> None:
    """Decoding takes the model's step for each draft, and a warm prefix is cached and quicker."""
    line.up()
    try:
        earliest, best = lateness(line, model.GEMV_FAST_GB_S)
        assert earliest > -0.005
        assert abs(best) < 0.02
        speed, pace = boot_speed(line), line.cluster.pace
        colds = [line.ask(f"{number}: {LONG}", 1) for number in range(3)]
        warm = line.ask(f"2: {LONG}", 1)
        usage = warm.json()["usage"]
        assert [cached(reply) for reply in colds] == [0, 0, 0]
        assert 0.9 * usage["prompt_tokens"] < cached(warm) == metric(line, "prefix_cache_hits_total")
        want_s = model.prefill_s(usage["prompt_tokens"], speed) / pace
        took_s = min(reply.elapsed.total_seconds() for reply in colds)
        assert 0.98 * want_s < took_s < 1.15 * want_s
        assert warm.elapsed.total_seconds() < 0.5 * want_s
    finally:
        line.down()


def test_a_dead_rank_leaves_the_head_green_until_a_request_fails(line: Line) -> None:
    """/health stays 200 when a worker is killed; the next request is a 500."""
    line.up()
    try:
        line.ssh("spark-a2", "docker kill sparkctl-a-rank2")
        assert settles(
            lambda: "died unexpectedly" in line.ssh("spark-a0", "docker logs sparkctl-a-rank0").out
        )
        assert state(line, "spark-a2", 2) == "exited 137\n"
        assert httpx.get(f"{line.url}/health").status_code == 200
        assert line.ask("hello").status_code == 500
    finally:
        line.down()


def test_levers_garble_and_arguments_fail_in_the_log(line: Line) -> None:
    """A lever that breaks the text does; a wrong argument ends the rank with vLLM's words."""
    line.up(environment="-e VLLM_DISABLED_KERNELS=FlashInferCutlassMxfp8LinearKernel,MarlinMxfp8LinearKernel")
    try:
        text = line.ask("What is the capital of France?", 40).json()["choices"][0]["message"]["content"]
        assert "Paris" not in text
        assert (
            "Using B12xMxfp8LinearKernel for MXFP8 GEMM"
            in line.ssh("spark-a0", "docker logs sparkctl-a-rank0").out
        )
    finally:
        line.down()
    line.ssh("spark-a0", line.rank_command(0, "--frobnicate"))
    try:
        assert settles(lambda: state(line, "spark-a0", 0) == "exited 2\n")
        log = line.ssh("spark-a0", "docker logs sparkctl-a-rank0").out
        assert "vllm serve: error: unrecognized arguments: --frobnicate" in log
    finally:
        line.down()
