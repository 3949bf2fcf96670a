"""What does `sparkctl proxy` add to each token? The same streams with and without it, turn about, in one run.

Usage: python benchmarks/proxy.py [--streams 1,8,16,32,64] [--rate 20] [--seconds 5] [--repeats 3] [--json] [-o FILE]

An upstream in a process of its own writes chunks as vLLM does, log-probabilities among them where they are asked for, and puts the
time of CLOCK_MONOTONIC at which it wrote each into it; the client, another process, asks without log-probabilities and takes the time
at which the chunk is there. The proxy is the real verb. What it adds is the difference of the two medians and of the two 99th
percentiles. The bar: under 1 ms at the 99th percentile for every number of streams, and every token arrives. Exit code 1 above it, 4
where the streams without the proxy miss it themselves: then the machine is too busy to tell. `cpu_us` is the proxy's own processor time
for each token, which says more there.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

BAR_MS = 1.0
WORDS = tuple(f"word{number} " for number in range(997))


def main() -> int:
    """Measure, print, and return 0 when the bar is held."""
    options = asked()
    if options.serve:
        asyncio.run(serve())
        return 0
    with tempfile.TemporaryDirectory() as state:
        upstream, url = started([sys.executable, __file__, "--serve"], "stdout")
        verb = [
            "-c",
            "from sparkctl.cli import main; main()",
            "proxy",
            "--url",
            url,
            "--model",
            "m",
            "--state",
            state,
        ]
        proxy, through = started([sys.executable, *verb, "--listen", "127.0.0.1:0"], "stderr")
        try:
            rows = [row(options, streams, (url, through), proxy.pid) for streams in options.streams]
        finally:
            proxy.terminate()
            upstream.terminate()
    answer = {"rate": options.rate, "seconds": options.seconds, "bar_ms": BAR_MS, "rows": rows}
    if options.path:
        options.path.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(answer, indent=2) if options.json else table(rows))
    if all(one["added_p99_ms"] < BAR_MS and one["lost"] == 0 for one in rows):
        return 0
    return 4 if any(one["without_ms"]["p99"] >= BAR_MS for one in rows) else 1


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole = lambda text: [int(one) for one in text.split(",")]  # noqa: E731 - a converter
    parser.add_argument("--streams", type=whole, default=[1, 8, 16, 32, 64], help="numbers of streams")
    parser.add_argument("--rate", type=float, default=20.0, help="tokens a second of a stream")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds that a stream flows")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each; their tokens count together")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("-o", type=Path, dest="path", help="write the JSON document there too")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def started(command: list[str], says: str) -> tuple["subprocess.Popen[str]", str]:
    """Start a process and return it with the address that it says."""
    process = subprocess.Popen(command, text=True, **{says: subprocess.PIPE})
    stream = getattr(process, says)
    for line in stream:
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            return process, found[0]
    sys.exit(f"{command[-1]} says no address")


async def serve() -> None:
    """Stream as asked: the rate and the number of tokens stand in the request."""
    runner = web.ServerRunner(web.Server(stream))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


async def stream(request: web.BaseRequest) -> web.StreamResponse:
    """Write a chunk a token, each at its time."""
    body = json.loads(await request.content.read())
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    begin = time.monotonic()
    for number in range(body["max_tokens"]):
        await asyncio.sleep(max(0.0, begin + number / body["rate"] - time.monotonic()))
        await response.write(chunk(number, telling=bool(body.get("logprobs"))))
    await response.write(b"data: [DONE]\n\n")
    return response


def chunk(number: int, *, telling: bool) -> bytes:
    """Write one token as vLLM does, with the time in nanoseconds."""
    text = WORDS[number * 7 % len(WORDS)]
    token = {"token": text, "logprob": -0.31, "bytes": list(text.encode()), "top_logprobs": []}
    choice = {
        "index": 0,
        "delta": {"content": text},
        "logprobs": {"content": [token]} if telling else None,
        "finish_reason": None,
    }
    told = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
    return f"data: {json.dumps({**told, 'stamp': time.monotonic_ns()}, separators=(',', ':'))}\n\n".encode()


def row(options: argparse.Namespace, streams: int, urls: tuple[str, str], pid: int) -> dict[str, Any]:
    """Measure one number of streams, without and with the proxy in turn."""
    direct, through = urls
    began_s = cpu_s(pid)
    taken: dict[str, list[float]] = {direct: [], through: []}
    for _ in range(options.repeats):
        for url in (direct, through):
            taken[url] += asyncio.run(
                measured(url, streams, options.rate, int(options.rate * options.seconds))
            )
    wanted = streams * int(options.rate * options.seconds) * options.repeats
    without, with_it = (quantiles(taken[url]) for url in (direct, through))
    return {
        "streams": streams,
        "tokens": wanted,
        "lost": wanted - len(taken[through]),
        "without_ms": without,
        "with_ms": with_it,
        "cpu_us": round(1e6 * (cpu_s(pid) - began_s) / wanted, 1),
        "added_p50_ms": round(with_it["p50"] - without["p50"], 3),
        "added_p99_ms": round(with_it["p99"] - without["p99"], 3),
    }


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process took."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantiles(times_ms: list[float]) -> dict[str, float]:
    """Return median and 99th percentile."""
    cuts = statistics.quantiles(times_ms, n=100)
    return {"p50": round(cuts[49], 3), "p99": round(cuts[98], 3)}


async def measured(url: str, streams: int, rate: float, tokens: int) -> list[float]:
    """Return the milliseconds that every token took from being written to being read."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        found = await asyncio.gather(
            *(one(http, url, rate, tokens, n / streams / rate) for n in range(streams))
        )
    return [taken for each in found for taken in each]


async def one(http: aiohttp.ClientSession, url: str, rate: float, tokens: int, after_s: float) -> list[float]:
    """Read one stream; streams begin apart, so that their tokens do not come at once."""
    await asyncio.sleep(after_s)
    body = {
        "model": "m",
        "messages": [],
        "stream": True,
        "max_tokens": tokens,
        "rate": rate,
        "temperature": 0,
    }
    taken = []
    async with http.post(f"{url}/v1/chat/completions", json=body) as answer:
        async for line in answer.content:
            now = time.monotonic_ns()
            if line.startswith(b"data: {"):
                taken.append((now - json.loads(line[6:])["stamp"]) / 1e6)
    return taken


def table(rows: list[dict[str, Any]]) -> str:
    """Write the rows for reading."""
    lines = ["streams  tokens  lost  without p50/p99 ms  with p50/p99 ms  added p50/p99 ms  cpu us a token"]
    for one in rows:
        without, with_it = one["without_ms"], one["with_ms"]
        lines.append(
            f"{one['streams']:7} {one['tokens']:7} {one['lost']:5}  {without['p50']:8.3f} {without['p99']:8.3f}"
            f"  {with_it['p50']:7.3f} {with_it['p99']:7.3f}  {one['added_p50_ms']:7.3f} {one['added_p99_ms']:7.3f}  {one['cpu_us']:6.1f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
