"""The bench against a server in its own process that knows the truth: counts, texts, times, and the verdict on every trouble.

Times are compared with what the server noted, on the clock that both share. This is no benchmark: a busy machine may be late
by `LATE_S` at either end (benchmarks/bench_client.py says how exact the client is on a quiet one).
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import pytest
import yaml

from sparkctl.clock import PacedClock
from tuner.bench import Bench, Endpoint, Request, run
from tuner.metrics import measure
from tuner.voids import of_bench as voids
from tuner.workload import Cell, Prompt, Workload

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "data" / "troubles.yml").read_text(encoding="utf-8"))

TOKENS, STREAMS = 60, 3
LATE_S = 0.1
EXACT, TRIES = 0.005, 5


@dataclass(frozen=True, slots=True)
class TruthServer:
    """A running truth server."""

    url: str

    def noted(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the truth on every request by its tag."""
        return {one["tag"]: one for one in httpx.get(f"{self.url}/truth").json()}


@contextmanager
def serving() -> Iterator[TruthServer]:
    """Start a truth server and end it."""
    argv = [sys.executable, str(HERE / "truth")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield TruthServer(f"http://127.0.0.1:{int(process.stdout.readline())}")
        process.communicate(timeout=10)
    assert process.returncode == 0


@pytest.fixture(scope="module")
def truth() -> Iterator[TruthServer]:
    """One server for all tests of this module; each bench has a run tag of its own."""
    with serving() as server:
        yield server


@pytest.fixture
def workload(quick: Workload) -> Workload:
    """One decode cell of three streams, and nothing before it."""
    text = "Tell a story of a village by the sea, as long as you can."
    prompt = Prompt(id="story", category="prose", text=text, max_tokens=TOKENS)
    cell = Cell(
        name="c3",
        kind="decode",
        concurrency=STREAMS,
        rounds=1,
        prompts=("story",),
        metrics={"c3_per_stream_tok_s": "per_stream", "c3_agg_tok_s": "aggregate", "c3_ttft_s": "ttft"},
    )
    around = {"warm_up": None, "burst": False, "sentinel": None}
    return replace(quick, prompts=(prompt,), cells=(cell,), limit_s=20.0, **around)


def prefill(workload: Workload) -> Workload:
    """The same with one prefill cell instead."""
    cell = Cell(
        name="p",
        kind="prefill",
        concurrency=1,
        rounds=1,
        prompt_tokens=400,
        metrics={"p_tok_s": "prefill"},
    )
    return replace(workload, cells=(cell,))


def bench(server: TruthServer, workload: Workload, script: Mapping[str, Any], tag: str) -> Bench:
    """Run the workload, to be answered by that script."""
    return run(
        Endpoint(url=server.url, model="truth"),
        replace(workload, body={"truth": {"rate": 150, **script}}),
        run_tag=tag,
        clock=PacedClock(),
        report=lambda _: None,
    )


def true_figures(noted: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """Return what the metrics of a round must be: a stream's rate counts after the write that brought its first token."""
    rates = [
        (one["completion_tokens"] - one["first_tokens"]) / (one["last_s"] - one["first_s"]) for one in noted
    ]
    tokens = sum(one["completion_tokens"] for one in noted)
    took_s = max(one["last_s"] for one in noted) - min(one["received_s"] for one in noted)
    return {"c3_per_stream_tok_s": fmean(rates), "c3_agg_tok_s": tokens / took_s}


def assert_true(request: Request, noted: Mapping[str, Any]) -> None:
    """A whole request says what the server sent, when it sent it."""
    counted = (request.prompt_tokens, request.completion_tokens, request.cached_tokens or 0)
    assert counted == (noted["prompt_tokens"], noted["completion_tokens"], noted["cached_tokens"])
    assert request.text == noted["text"]
    assert request.ttft_s == pytest.approx(noted["first_s"] - noted["received_s"], abs=LATE_S)
    assert request.total_s == pytest.approx(noted["last_s"] - noted["received_s"], abs=LATE_S)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_trouble_ends_in_its_verdict(
    truth: TruthServer, workload: Workload, case: dict[str, Any]
) -> None:
    """Counts, texts and times are the server's, faults are told as what they are, and no void bench gives a figure."""
    chosen = prefill(workload) if case.get("kind") == "prefill" else workload
    chosen = replace(chosen, limit_s=case.get("limit_s", chosen.limit_s))
    found = bench(truth, chosen, case["truth"], case["name"])
    noted = truth.noted()
    hit = [one for one in found.requests if "fault" in case and case["truth"].get("only", "") in one.tag]
    for request in found.requests:
        if request in hit:
            assert re.search(case["fault"], request.fault)
        else:
            assert request.fault == ""
            if request.completion_tokens is not None:
                assert_true(request, noted[request.tag])
    if "void" in case:
        assert re.search(case["void"], "\n".join(voids(found)))
    else:
        assert voids(found) == ()
    names = {name for cell in chosen.cells for name in cell.metrics}
    damaged = "void" in case and "neighbour" not in case["truth"]
    assert {one.name for one in measure(found)} == (set() if damaged else names)


@pytest.mark.parametrize(
    "script",
    [
        {},
        {"chunk": [1, 8]},
        {"chunk": [1, 8], "first": 8},
        {"chunk": [1, 8], "usage": "end"},
        {"pack": 4, "usage": "end"},
        {"delay_at": 100, "delay_s": 0.1},
    ],
    ids=str,
)
def test_rates_are_true(truth: TruthServer, workload: Workload, script: Mapping[str, Any]) -> None:
    """Both rates are within 0.5 % of the truth. A busy machine gets some tries; a biased client would need more of them."""
    (prompt,) = workload.prompts
    longer = replace(workload, prompts=(replace(prompt, max_tokens=2 * TOKENS),))
    off = []
    for number in range(TRIES):
        tag = f"rates {' '.join(script)} {number}"
        found = bench(truth, longer, script, tag)
        noted = truth.noted()
        true = true_figures([noted[one.tag] for one in found.requests])
        told = {one.name: one.value for one in measure(found)}
        off.append(max(abs(told[name] / value - 1) for name, value in true.items()))
        if off[-1] <= EXACT:
            break
        time.sleep(0.5)
    assert min(off) <= EXACT, off


def test_the_server_keeps_its_schedule(truth: TruthServer, workload: Workload) -> None:
    """What it noted is what was asked for: no drift, whatever became of single chunks."""
    bench(truth, workload, {"chunk": [1, 8], "first_s": 0.1}, "schedule")
    for stream in range(STREAMS):
        one = truth.noted()[f"[schedule c3 r0 s{stream}]"]
        assert one["first_s"] - one["received_s"] == pytest.approx(0.1, abs=LATE_S)
        assert one["last_s"] - one["received_s"] == pytest.approx(0.1 + (TOKENS - 1) / 150, abs=LATE_S)
        assert (one["completion_tokens"], one["first_tokens"], one["whole"]) == (TOKENS, 1, True)
