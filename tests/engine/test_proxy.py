"""The proxy before real vLLM: streams, log-probabilities, tools, clients that leave, a calibration; and replies whose tokens are scored again."""

import json
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from .conftest import LESSONS, Engine, raised_line

if TYPE_CHECKING:
    import subprocess

    from .conftest import RealLine

pytestmark = pytest.mark.engine

HERE = Path(__file__).parent
TOOLS: Any = yaml.safe_load((HERE / "quality.yml").read_text(encoding="utf-8"))["tools"]
CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 64}


@pytest.fixture(scope="module")
def booted(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[tuple[RealLine, str]]":
    """One host that serves, and its address."""
    with raised_line(engine, tmp_path_factory.mktemp("one"), 1) as line:
        ended = line("boot", "--json")
        assert ended.code == 0, ended.out + ended.err
        yield line, line("status", "--json").document["url"]


@contextmanager
def proxied(line: "RealLine", *flags: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run the proxy before the line; give its address, and behind the block what it said at the end."""
    told: dict[str, Any] = {}
    running = line.start("proxy", "--listen", "127.0.0.1:0", "--json", *flags)
    assert running.stderr
    found = None
    while not found and (said := running.stderr.readline()):
        found = re.search(r"http://127\.0\.0\.1:\d+", said)
    assert found
    try:
        yield found[0], told
    finally:
        running.send_signal(signal.SIGINT)
        out, err = _ended(running)
    told |= json.loads(out) | {"code": running.returncode, "err": err}


def _ended(running: "subprocess.Popen[str]") -> tuple[str, str]:
    return running.communicate(timeout=60)


def asked(url: str, body: dict[str, Any]) -> Any:
    """Ask once."""
    return httpx.post(url + CHAT, json={**BODY, **body}, timeout=300, trust_env=False).json()


def streamed(url: str, body: dict[str, Any]) -> list[Any]:
    """Ask for a stream and return its documents; the last frame is the end mark."""
    sent = {**BODY, "stream": True, "stream_options": {"include_usage": True}, **body}
    with httpx.stream("POST", url + CHAT, json=sent, timeout=300, trust_env=False) as answer:
        lines = [one.removeprefix("data: ") for one in answer.iter_lines() if one]
    assert lines[-1] == "[DONE]"
    return [json.loads(one) for one in lines[:-1]]


def question(at: int) -> dict[str, Any]:
    """Return what the model was taught to answer."""
    return {"messages": [{"role": "user", "content": LESSONS[at]["prompt"]}]}


def text(documents: list[Any]) -> str:
    """Return the text of a stream."""
    deltas = [one["choices"][0]["delta"] for one in documents if one["choices"]]
    return "".join(one.get("content") or "" for one in deltas)


def test_what_a_client_sees_is_what_vllm_says(booted: "tuple[RealLine, str]") -> None:
    """The same words, usage and tool calls with and without the proxy; log-probabilities only for whom they were asked."""
    line, url = booted
    call = TOOLS["calls"][0]
    told_tools = [
        {"type": "function", "function": {"name": one["name"], "description": one["about"], "parameters": one["parameters"]}}
        for one in TOOLS["tools"]
    ]  # fmt: skip
    tools = {"messages": [{"role": "user", "content": call["ask"]}], "tools": told_tools}
    with proxied(line) as (proxy, told):
        for at in (0, 1):
            through, direct = streamed(proxy, question(at)), streamed(url, question(at))
            assert text(through).strip() == text(direct).strip() == LESSONS[at]["reply"]
            assert through[-1]["usage"] == direct[-1]["usage"]
            assert not any(one["choices"][0]["logprobs"] for one in through if one["choices"])
        shown = streamed(proxy, {**question(1), "logprobs": True, "top_logprobs": 2})
        tops = [
            one["choices"][0]["logprobs"] for one in shown if one["choices"] and one["choices"][0]["logprobs"]
        ]
        assert all(len(one["content"][0]["top_logprobs"]) == 2 for one in tops)
        called = [asked(one, tools)["choices"][0]["message"]["tool_calls"] for one in (proxy, url)]
        through, direct = ([one["function"] for one in calls] for calls in called)
        assert through == direct
        assert called[0][0]["function"]["name"] == call["tool"]
        names = [
            delta["tool_calls"][0]["function"]["name"]
            for one in streamed(proxy, tools)
            if one["choices"] and (delta := one["choices"][0]["delta"]).get("tool_calls") and delta["tool_calls"][0]["function"].get("name")
        ]  # fmt: skip
        assert names == [call["tool"]]
    assert told["code"] == 0
    assert (told["watched"], told["unwatched"], told["alarms"], told["broken"]) == (5, {}, {}, 0)


def test_a_client_that_leaves_ends_its_request_at_vllm(booted: "tuple[RealLine, str]") -> None:
    """Within seconds vLLM makes no token any more, though the reply had hundreds to go."""
    line, url = booted
    body = {**BODY, **question(2), "stream": True, "ignore_eos": True, "max_tokens": 1500}
    before = made_at(url)
    with proxied(line) as (proxy, told):
        with (
            httpx.Client(trust_env=False, timeout=120) as http,
            http.stream("POST", proxy + CHAT, json=body) as answer,
        ):
            assert answer.status_code == 200
            # The role comes before the first step; words come of one.
            words = (one for one in answer.iter_lines() if '"content":"' in one and '"content":""' not in one)
            next(words)
        at_rest = settled(url)
        assert running_at(url) == 0
    assert 0 < at_rest - before < 1500
    assert (told["watched"], told["broken"]) == (1, 0)


def test_replies_are_scored_again_by_their_tokens(booted: "tuple[RealLine, str]") -> None:
    """Real vLLM gives token ids and scores them anew: in float32 decode and prefill agree, and four replies show no more than that."""
    line, _ = booted
    ended = line("quality", "--battery", str(HERE / "budget.yml"), "--json")
    assert ended.code == 4, ended.out + ended.err
    checks = {one["what"]: one for one in ended.document["budget"]["checks"]}
    assert [one["outcome"] for one in checks.values()] == ["passes"] * 3 + ["inconclusive"]
    assert checks["KL, 2 in flight"]["value"] < 1e-4
    assert "collapses" in ended.document["why"]


@pytest.mark.full
def test_thresholds_come_from_real_log_probabilities(
    booted: "tuple[RealLine, str]", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three hundred replies give a row with its interval, below 1 % with confidence, and the proxy starts with it."""
    line, _ = booted
    path = tmp_path / "thresholds.json"
    with proxied(line, "--calibrate", str(path)) as (proxy, told), ThreadPoolExecutor(8) as pool:
        bodies = [
            {**question(at % len(LESSONS)), "temperature": 1, "max_tokens": 24, "seed": at}
            for at in range(300)
        ]
        list(pool.map(lambda body: asked(proxy, body), bodies))
    assert told["code"] == 0, told["err"]
    (row,) = json.loads(path.read_text(encoding="utf-8"))["thresholds"]
    assert row["replies"] + row["loops"] == 300
    assert row["high"] < 0.0125
    with capsys.disabled():
        print(f"\nthreshold of the tiny model in real vLLM: {row}")  # noqa: T201
    with proxied(line, "--thresholds", str(path)) as (proxy, told):
        asked(proxy, question(0))
    assert told["watched"] == 1


def settled(url: str) -> float:
    """Wait until vLLM makes no more tokens for some seconds, and return how many it has made."""
    last = -1.0
    while (now := made_at(url)) != last:
        last = now
        time.sleep(5)
    return last


def made_at(url: str) -> float:
    """Return how many tokens vLLM says it has made."""
    return told_at(url, "generation_tokens_total")


def running_at(url: str) -> float:
    """Return how many requests vLLM says it runs."""
    return told_at(url, "num_requests_running")


def told_at(url: str, name: str) -> float:
    """Return a figure of vLLM's metrics."""
    page = httpx.get(f"{url}/metrics", timeout=30, trust_env=False).text
    found = re.search(rf"^vllm:{name}\{{[^}}]*\}} (\S+)", page, re.MULTILINE)
    assert found
    return float(found[1])
