"""How exact is `sparkctl bench` itself, and what does it cost? Measured against a server that knows the truth, beside other clients.

Usage: python benchmarks/bench_client.py [--streams 1,8,16,32,64] [--rate 60] [--seconds 10] [--tokens 1,1-8] [--repeats N]
           [--first N] [--vllm COMMAND] [--tokenizer FOLDER] [--json] [-o FILE]

The server (tests/tuner/truth) is a process of its own and notes on CLOCK_MONOTONIC when it sent what. Each client is its own
process too and takes its turn at every number of streams: `sparkctl bench`, and `vllm bench serve` where it is found: by default
the engine and the tiny model that `scripts/check --engine` installs. Its tokens are counted by the server's usage, as ours are.
The bars, for sparkctl alone: rates within 0.5 % of the truth, every token counted, at most half a core. Exit code 1 below them,
2 without a client to compare with.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench_client_report import Turn, document, faults, judged, table
from bench_clients import Client, Load, Sparkctl, VllmBench, watched

ROOT = Path(__file__).parents[1]
SERVER = ROOT / "tests" / "tuner" / "truth"
ENGINE = ROOT / "tests" / "engine"
FIRST_S = 0.2


def main() -> int:
    """Measure, print, and return 0 when the bars are held, 1 when one is not, 2 where there is nothing to compare with."""
    options = asked()
    clients: list[Client] = [Sparkctl()]
    if not options.alone:
        if not options.vllm.is_file() or not options.tokenizer.is_dir():
            say(f"no {options.vllm} or no {options.tokenizer}: name both, or measure --alone")
            return 2
        clients.append(VllmBench(command=options.vllm, tokenizer=options.tokenizer))
    turns = [
        one_turn(client, load)
        for load in loads(options)
        for client in clients
        for _ in range(options.repeats)
    ]
    broken = faults(turns)
    answer = document(turns, broken)
    if options.path:
        options.path.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(answer, indent=2) if options.json else table(turns, broken))
    return 1 if broken else 0


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cache = engine_cache()
    vllm = cache / f"vllm-{digest(ENGINE / 'requirements.txt')}" / "bin" / "vllm"
    tiny = cache / f"tiny-{digest(ENGINE / 'make_model.py', ENGINE / 'lessons.json')}"
    parser.add_argument("--streams", default="1,8,16,32,64", help="numbers of streams (default 1,8,16,32,64)")
    parser.add_argument("--rate", type=float, default=60.0, help="tokens a second of a stream (default 60)")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="seconds that a stream flows (default 10)"
    )
    parser.add_argument("--tokens", default="1,1-8", help="tokens a chunk, or from-to (default 1,1-8)")
    parser.add_argument("--first", type=int, default=1, help="tokens of the first chunk (default 1)")
    parser.add_argument("--repeats", type=int, default=1, help="turns of each client; their median counts")
    parser.add_argument("--vllm", type=Path, default=vllm, help="the vllm command")
    parser.add_argument("--tokenizer", type=Path, default=tiny, help="a model's folder, for vllm's prompts")
    parser.add_argument("--alone", action="store_true", help="measure sparkctl only")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("-o", type=Path, dest="path", help="write the JSON document there too")
    return parser.parse_args()


def engine_cache() -> Path:
    """Return where scripts/lib/engine.sh keeps what it installs."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("SPARKCTL_ENGINE_CACHE") or f"{cache}/sparkctl")


def digest(*paths: Path) -> str:
    """Return the digest by which scripts/lib/engine.sh names a folder made from these files."""
    return sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def loads(options: argparse.Namespace) -> Iterator[Load]:
    """Yield what is to be served, one after the other."""
    for chunk in options.tokens.split(","):
        fewest, _, most = chunk.partition("-")
        for streams in options.streams.split(","):
            yield Load(
                streams=int(streams),
                tokens=round(options.rate * options.seconds) + 1,
                script={
                    "rate": options.rate,
                    "first_s": FIRST_S,
                    "chunk": [int(fewest), int(most or fewest)],
                    "first": options.first,
                },
            )


def one_turn(client: Client, load: Load) -> Turn:
    """Let a client measure a server of its own, and hold what it says against what was true."""
    busy = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-client-") as home, serving() as url:
        cost = watched(client.argv(url, load, Path(home)), client.environment(), Path(home))
        said = client.said(Path(home))
        with urllib.request.urlopen(f"{url}/truth") as answer:  # noqa: S310 - our own server
            noted: list[dict[str, Any]] = json.load(answer)
    turn = judged(client.name, load, said, noted, cost, busy)
    say(f"{load.streams} streams, {load.chunk} tokens a chunk, {client.name}: {turn.told}")
    return turn


@contextmanager
def serving() -> Iterator[str]:
    """Start the truth server, give its address, and end it."""
    argv = [sys.executable, str(SERVER)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().strip() if server.stdout else ""
        try:
            yield f"http://127.0.0.1:{int(port)}"
        finally:
            server.communicate(timeout=10)


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
