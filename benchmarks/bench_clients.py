"""The clients that benchmarks/bench_client.py compares: how each is called, what it said, and what it cost.

A client is a process of its own. Its CPU time is read from its own clock while it runs, ten times a second, so that what it took while
tokens flowed stands apart from its start (an import of torch takes seconds) and its end.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

LOOK_S = 0.1
LIMIT_S = 600
PROMPT = "Tell a story of a village by the sea, as long as you can."
FILLER = {"unit": "words", "text": " ".join(f"word{n}" for n in range(20)), "characters_a_token": 4.0}
"""Every workload has one; no decode cell sends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the server is to serve: streams at once, tokens of each, and its script (tests/tuner/truth/script.py)."""

    streams: int
    tokens: int
    script: Mapping[str, Any]

    @property
    def chunk(self) -> str:
        """Tokens a chunk, as one reads it."""
        fewest, most = self.script["chunk"]
        return f"{fewest}" if fewest == most else f"{fewest}-{most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a client said: each stream's tokens/s by what names the request to the server, all tokens, tokens/s in all."""

    rates: Mapping[str, float]
    aggregate: float
    tokens: int
    by_gaps: float | None = None
    """Tokens/s of a stream as its mean gap between chunks has it, where it prints that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU seconds of a client: `looks` are (CLOCK_MONOTONIC, CPU so far), `whole_s` all from its start to its end (getrusage)."""

    looks: tuple[tuple[float, float], ...]
    whole_s: float

    def cores(self, begin_s: float, end_s: float) -> float:
        """Return CPU time over wall time between the first and the last look within two moments."""
        first, *_, last = (look for look in self.looks if begin_s <= look[0] <= end_s)
        return (last[1] - first[1]) / (last[0] - first[0])


class Client(Protocol):
    """One client."""

    @property
    def name(self) -> str:
        """What it is called."""

    def argv(self, url: str, load: Load, home: Path) -> list[str]:
        """Return how it is called; its files go into `home`."""

    def environment(self) -> dict[str, str]:
        """Return what its environment has besides ours."""

    def said(self, home: Path) -> Said:
        """Return what it said, once it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkctl:
    """`sparkctl bench` as a user calls it, one cell of one round."""

    name: str = "sparkctl bench"

    def argv(self, url: str, load: Load, home: Path) -> list[str]:
        """Write the workload and return the command."""
        cell = {"name": "c", "kind": "decode", "concurrency": load.streams, "rounds": 1, "prompts": ["story"]}
        workload = {
            "schema": 1,
            "name": "bench-client",
            "source": "benchmarks/bench_client.py",
            "limit_s": LIMIT_S,
            "prompts": [{"id": "story", "category": "prose", "text": PROMPT, "max_tokens": load.tokens}],
            "cells": [{**cell, "metrics": {"per_stream": "per_stream", "aggregate": "aggregate"}}],
            "filler": FILLER,
            "body": {"truth": dict(load.script)},
        }
        (home / "workload.json").write_text(json.dumps(workload), encoding="utf-8")
        command = [str(Path(sys.executable).with_name("sparkctl")), "bench", "--url", url, "--model", "truth"]
        files = ["--prompts", str(home / "workload.json"), "-o", str(home / "bench.json")]
        return [*command, *files, "--state", str(home / "state"), "--json"]

    def environment(self) -> dict[str, str]:
        """Nothing."""
        return {}

    def said(self, home: Path) -> Said:
        """Read its result file for the streams and its answer for the aggregate."""
        bench = json.loads((home / "bench.json").read_text(encoding="utf-8"))
        answer = json.loads((home / "stdout").read_text(encoding="utf-8"))
        if answer["voids"]:
            raise SystemExit(f"{self.name} is void: {answer['voids'][0]}")
        figures = {one["name"]: one["value"] for one in answer["metrics"]}
        requests = bench["requests"]
        return Said(
            rates={
                one["tag"]: (one["completion_tokens"] - one["first_tokens"])
                / (one["total_s"] - one["ttft_s"])
                for one in requests
            },
            aggregate=figures["aggregate"],
            tokens=sum(one["completion_tokens"] for one in requests),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmBench:
    """`vllm bench serve` on the same endpoint; its tokenizer only makes its prompts, its counts are the server's usage."""

    command: Path
    tokenizer: Path
    name: str = "vllm bench serve"

    def argv(self, url: str, load: Load, home: Path) -> list[str]:
        """Return the command."""
        flags = {
            "backend": "openai-chat",
            "base-url": url,
            "endpoint": "/v1/chat/completions",
            "model": "truth",
            "tokenizer": str(self.tokenizer),
            "dataset-name": "random",
            "random-input-len": "64",
            "random-output-len": str(load.tokens),
            "num-prompts": str(load.streams),
            "max-concurrency": str(load.streams),
            "extra-body": json.dumps({"truth": dict(load.script)}),
            "request-id-prefix": "stream-",
            "result-dir": str(home),
            "result-filename": "result.json",
        }
        given = [word for name, value in flags.items() for word in (f"--{name}", value)]
        return [str(self.command), "bench", "serve", *given, "--ignore-eos", "--disable-tqdm", *_SAVED]

    def environment(self) -> dict[str, str]:
        """Keep it from asking the network."""
        return {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}

    def said(self, home: Path) -> Said:
        """Read its result file; a stream's TPOT is (latency - TTFT) / (n - 1), as it takes its mean TPOT from."""
        raw = json.loads((home / "result.json").read_text(encoding="utf-8"))
        if raw["failed"]:
            raise SystemExit(f"{self.name} failed: {next(filter(None, raw['errors']))}")
        streams = zip(raw["output_lens"], raw["latencies"], raw["ttfts"], strict=True)
        return Said(
            rates={
                f"stream-{at}": (n - 1) / (latency - ttft) for at, (n, latency, ttft) in enumerate(streams)
            },
            aggregate=raw["output_throughput"],
            tokens=raw["total_output_tokens"],
            by_gaps=1000 / raw["mean_itl_ms"],
        )


_SAVED = ("--save-result", "--save-detailed")


def watched(argv: list[str], environment: Mapping[str, str], home: Path) -> Cost:
    """Run a client to its end and read its CPU clock meanwhile; what it prints lies in `home`."""
    looks = []
    with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
        client = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **environment}
        )
        limit_s = time.monotonic() + LIMIT_S
        while True:
            ended, status, usage = os.wait4(client.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > limit_s:
                client.kill()
            looks.append((time.monotonic(), cpu_s(client.pid)))
            time.sleep(LOOK_S)
    client.returncode = os.waitstatus_to_exitcode(status)
    if client.returncode != 0:
        told = (home / "stderr").read_text(encoding="utf-8", errors="replace").strip()[-2000:]
        raise SystemExit(f"{argv[0]} ended with {client.returncode}: {told}")
    return Cost(looks=tuple(looks), whole_s=usage.ru_utime + usage.ru_stime)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of its children that live, read from their clocks (clock_getcpuclockid(3))."""
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text(encoding="ascii").split()
    ]
    return time.clock_gettime(~pid << 3 | 2) + sum(map(cpu_s, children))
