"""Real vLLM with the plug-in: the tiny model read by budget, in one process and over two hosts, beside stock vLLM on the same weights."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from .conftest import HERE, LESSONS, Engine, RealLine, raised_line

pytestmark = pytest.mark.engine

PLUGIN = HERE.parents[1] / "vllm_plugin"
PROMPTS = ["Tell me of the sea. " * 8, "[a-b] What is a node? " * 7, "one two three " * 12]
BLOCK = 32
TOKENS = 24
NAT = 1 << 24
NOISE = 0.05
EXACT = 4
"""Tokens for which bf16 and float32 must say the same; from there on near ties may go either way."""
"""Nats by which the log-probability of a token may differ from stock beyond what bf16 itself makes of it. Ours: stock in bf16 differs from
stock in float32 by up to as much on these prompts."""

QUIET = {"price": 0.0, "eps": 0.01, "h": 1.0, "importance": 0.001}
"""A plan whose cuts are told to cost next to nothing, so that no account ever rises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The engine with the plug-in beside it, and a model half of whose neurons are silent."""

    engine: Engine
    plugin: Path
    home: Path

    def python(self, *argv: str, **environment: str) -> str:
        """Run the engine's Python with the plug-in on its path and return what it printed."""
        told = {
            "PYTHONPATH": str(self.plugin),
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "TORCH_COMPILE_DISABLE": "1",
            "VLLM_CACHE_ROOT": str(self.home / "cache"),
            **environment,
        }
        command = [str(self.engine.commands / "python"), *argv]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **told}
        )
        assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
        return done.stdout

    def plan(self, name: str, ranks: int = 1, **asked: Any) -> Path:
        """Make a plan, and the model of so many ranks where it is not there yet."""
        path = self.home / name
        settings = json.dumps({**QUIET, "ranks": ranks, "plan": str(path), **asked})
        self.python(str(HERE / "budget_model.py"), str(self.engine.model), str(self.model(ranks)), settings)
        return path

    def model(self, ranks: int = 1) -> Path:
        """Return the folder of the model whose silent neurons are drawn in each of so many slices."""
        return self.home / f"half-{ranks}"

    def talk(self, plan: Path | None = None, **asked: Any) -> dict[str, Any]:
        """Serve the prompts in one process."""
        return self.said(self.model(), {"SPARKCTL_BUDGET_PLAN": str(plan)} if plan else {}, **asked)

    def said(self, model: Path, environment: dict[str, str], **asked: Any) -> dict[str, Any]:
        """Serve the prompts on any model, told by the environment how."""
        requests = json.dumps({"prompts": PROMPTS, "tokens": TOKENS, **asked})
        printed = self.python(str(HERE / "budget_talk.py"), str(model), requests, **environment)
        return dict(json.loads(next(row for row in printed.splitlines() if row.startswith('{"replies"'))))


def installed(engine: Engine, home: Path) -> Bench:
    """Install the plug-in beside the engine, whose own environment stays as it is."""
    target = home / "plugin"
    argv = ["install", "-q", "--no-deps", "--no-build-isolation", "--target", str(target), str(PLUGIN)]
    subprocess.run([sys.executable, "-m", "pip", *argv], check=True, capture_output=True)
    return Bench(engine=engine, plugin=target, home=home)


@pytest.fixture(scope="module")
def bench(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The plug-in, the model and a plan that reads it whole."""
    made = installed(engine, tmp_path_factory.mktemp("budget"))
    made.plan("whole", least=4)
    return made


@pytest.fixture(scope="module")
def stock(bench: Bench) -> dict[str, Any]:
    """Stock vLLM, with the plug-in installed and no plan named."""
    return bench.talk(again=True)


@pytest.fixture(scope="module")
def whole(bench: Bench) -> dict[str, Any]:
    """Read by budget, every tile."""
    return bench.talk(bench.home / "whole")


def apart(one: dict[str, Any], other: dict[str, Any], least: int = TOKENS // 2) -> float:
    """Return by how much the log-probabilities of the same tokens of the first turn differ at most, up to where the replies part.

    They may part no earlier than after `least` tokens.
    """
    most = 0.0
    for mine, its in zip(one["replies"][: len(PROMPTS)], other["replies"][: len(PROMPTS)], strict=True):
        same = next(
            (
                at
                for at, pair in enumerate(zip(mine["tokens"], its["tokens"], strict=True))
                if pair[0] != pair[1]
            ),
            TOKENS,
        )
        assert same >= least, "they part too early to compare"
        pairs = zip(mine["logprobs"][:same], its["logprobs"][:same], strict=True)
        most = max(most, *(abs(first - second) for first, second in pairs))
    return most


def test_at_full_depth_it_is_stock_within_the_noise_of_bf16(
    bench: Bench, stock: dict[str, Any], whole: dict[str, Any]
) -> None:
    """And no further from float32 than stock is, give or take; all bytes are read."""
    exact = bench.talk(dtype="float32")
    noise = apart(stock, exact, least=EXACT)
    assert apart(whole, exact, least=EXACT) <= noise + NOISE
    assert apart(whole, stock) <= noise + NOISE
    assert whole["read"] == whole["whole"]
    assert sum(whole["steps"]) == TOKENS - 1, "the first token of each is the prefill's"


def test_at_cut_depth_it_is_the_model_without_those_neurons(
    bench: Bench, stock: dict[str, Any], whole: dict[str, Any]
) -> None:
    """The plan sorts the silent half to the end, so half the bytes say what stock says of the same checkpoint."""
    cut = bench.talk(bench.plan("cut", price=1e30, least=2))
    assert apart(cut, whole) <= 1e-3
    assert apart(cut, stock) <= 2 * NOISE
    assert [2 * one for one in cut["read"]] == cut["whole"]


def test_the_wrong_half_is_another_model(bench: Bench, stock: dict[str, Any]) -> None:
    """Silent neurons first: the same depth reads nothing that speaks, so the test above can fail."""
    wrong = bench.talk(bench.plan("wrong", price=1e30, least=2, wrong=True))
    pairs = zip(wrong["replies"], stock["replies"][: len(PROMPTS)], strict=True)
    assert all(mine["tokens"] != its["tokens"] for mine, its in pairs)


def _reused(told: dict[str, Any]) -> list[int]:
    """Return of each second turn the tokens from the prefix cache that are not in whole blocks of the first turn's prompt."""
    half = len(PROMPTS)
    pairs = zip(told["replies"][:half], told["replies"][half:], strict=True)
    return [max(0, again["cached"] - first["asked"] // BLOCK * BLOCK) for first, again in pairs]


def test_only_accepted_tokens_are_charged_and_each_to_its_request(
    bench: Bench, stock: dict[str, Any]
) -> None:
    """With drafts by n-gram, preemption and three kinds of wishes: what each owes is what its own accepted rows cost, and nothing else."""
    plan = bench.plan("dear", price=1e30, least=1, deep=3, importance=0.2, eps=0.01, h=0.05)
    drafting = {
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2},
        "num_gpu_blocks_override": 17,  # fewer than three long replies need: one is pushed out and comes back
    }
    wishes = [None, {"sparkctl_full": True}, {"sparkctl_eps": 60}]
    told = bench.talk(plan, engine=drafting, extra=wishes, again=True, tokens=100)
    eps = {name: int(one * NAT) for name, one in zip("012345", (0.01, 0.01, 60, 0.01, 0.01, 60), strict=True)}
    owed = dict.fromkeys(eps, 0)
    drafted, refused, seen = 0, 0, dict.fromkeys(eps, 0)
    for step in told["ledger"]:
        for request, one in step.items():
            name = request.split("-")[0]
            if one["accepted"]:
                drafted += len(one["cost"]) - 1
                refused += len(one["cost"]) - one["accepted"]
            for cost in one["cost"][: one["accepted"]]:
                owed[name] = max(0, owed[name] + cost - eps[name])
            seen[name] = max(seen[name], owed[name])
            assert one["owed"] == owed[name], (request, step)
    assert told["back"], "some request must be preempted, or the test says less than it means to"
    assert drafted > 0
    assert refused > 0, "some drafts must be refused, or the test says nothing"
    assert (seen["1"], seen["4"]) == (0, 0), "who asked for whole reads is cut nothing"
    assert (seen["2"], seen["5"]) == (0, 0), "who bears 60 nats a token owes nothing"
    assert seen["0"] > int(0.05 * NAT), "the plain one passed h"
    assert _reused(told) == [0, 0, 0], "no block with a token of a reply is reused by the next turn"
    assert any(one["cached"] for one in told["replies"][3:]), (
        "those of the prompt are, where they were not needed meanwhile"
    )
    assert any(_reused(stock)), "stock does reuse them where a reply fills a block"


def test_registering_twice_is_registering_once(bench: Bench) -> None:
    """The entry point may be called more than once in a process; without a plan it does nothing at all."""
    asks = "from sparkctl_vllm.serving.registration import register as r; r(); r(); import vllm.model_executor.custom_op as c; print(sorted(c.op_registry_oot))"
    assert bench.python("-c", asks).splitlines()[-1] == "[]"
    plan = {"SPARKCTL_BUDGET_PLAN": str(bench.home / "whole")}
    assert bench.python("-c", asks, **plan).splitlines()[-1] == "['RoutedExperts']"


@pytest.fixture(scope="module")
def pair(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealLine, dict[str, Any]]]:
    """Two hosts that serve what the tiny model was taught, cut only where the router hardly asks, told dear so that accounts fill up."""
    home = tmp_path_factory.mktemp("pair")
    model = bench.home / "taught"
    shutil.copytree(bench.engine.model, model)
    settings = {
        "ranks": 2,
        "price": 100.0,
        "least": 1,
        "deep": 2,
        "importance": 0.02,
        "eps": 1e-6,
        "h": 1e-4,
        "plan": str(home / "plan"),
    }
    bench.python(str(HERE / "budget_model.py"), str(bench.engine.model), str(model), json.dumps(settings))
    with raised_line(Engine(commands=bench.engine.commands, model=model), home, 2) as line:
        recipe = yaml.safe_load((home / "tiny.yml").read_text(encoding="utf-8"))
        recipe["container"]["mounts"] |= {str(bench.plugin): "/plugin:ro", str(home): "/plans:ro"}
        # Without this the first request waits until the router's choice is compiled, for minutes where others compute too.
        recipe["env"] |= {"PYTHONPATH": "/plugin", "TORCH_COMPILE_DISABLE": "1"}
        recipe["args"]["dtype"] = "bfloat16"
        recipe["budget"] = {"plan": "/plans/plan"}
        (home / "tiny.yml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
        ended = line("boot", "--json")
        assert ended.code == 0, ended.out + ended.err
        yield line, ended.document


@pytest.mark.full
def test_both_ranks_prove_that_it_is_on(pair: tuple[RealLine, dict[str, Any]]) -> None:
    """By their own logs, as every proof: the same plan, each its own rank."""
    said = [values["budget"] for values in pair[1]["evidence"].values()]
    assert all(len(one) == 1 and one[0].startswith("on, plan ") for one in said)
    assert ["rank 0 of 2" in said[0][0], "rank 1 of 2" in said[1][0]] == [True, True]


@pytest.mark.full
def test_two_ranks_keep_the_same_accounts(pair: tuple[RealLine, dict[str, Any]]) -> None:
    """It answers what it was taught, and both ranks tell the same checksum of everything that was ever charged."""
    line, _ = pair
    assert line.answers() == LESSONS
    told = []
    for log in line("logs", "--json", "--tail", "2000").document["logs"]:
        rows = [row for row in log["lines"] if "the accounts sum up to" in row]
        told.append([row.partition("sparkctl budget reads: ")[2] for row in rows])
    assert len(told) == 2
    assert told[0] == told[1]
    assert any("after 100 steps" in row for row in told[0])


@pytest.mark.full
def test_metrics_show_what_each_rank_reads(pair: tuple[RealLine, dict[str, Any]]) -> None:
    """Bytes of both ranks, though the other one serves on another host; tiles, price, steps by rows, and the settings."""
    line, _ = pair
    url = line("status", "--json").document["url"]
    text = httpx.get(f"{url}/metrics", timeout=60, trust_env=False).text
    found = {
        row.rpartition(" ")[0]: float(row.rpartition(" ")[2])
        for row in text.splitlines()
        if row.startswith("sparkctl_budget")
    }
    read = [found[f'sparkctl_budget_bytes_read_total{{rank="{rank}"}}'] for rank in (0, 1)]
    whole = [found[f'sparkctl_budget_bytes_whole_total{{rank="{rank}"}}'] for rank in (0, 1)]
    assert all(0 < mine < its for mine, its in zip(read, whole, strict=True))
    assert found["sparkctl_budget_tiles_cut_total"] > 0
    assert found["sparkctl_budget_price"] == 100
    assert found["sparkctl_budget_rows_deepened_total"] > 0
    assert found['sparkctl_budget_steps_total{rows="1"}'] > 100
    assert found['sparkctl_budget_whole_steps_total{why="prefill"}'] > 0
    assert any(name.startswith("sparkctl_budget_info{") and 'eps="1e-06"' in name for name in found)
