"""How long `sparkctl --help` takes, warm, and which imports it pays for.

Usage: python benchmarks/cli_start.py [--runs N] [--json]
The bar is 0.25 s. The first run warms the file cache and is not counted.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

WANTED_S = 0.25
SHOWN = 15
# "import time:      1234 |       5678 |   package.module": own and cumulative microseconds
LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| (\s*)(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One module that start-up imported; milliseconds of its own body, and with what it imported."""

    module: str
    own_ms: float
    total_ms: float


def main() -> int:
    """Measure, print, and return 0 when the median is below what what we ask for is, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15, help="counted runs (default 15)")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    command = [str(Path(sys.executable).with_name("sparkctl")), "--help"]
    seconds = [wall_s(command) for _ in range(options.runs + 1)][1:]
    found = imports([sys.executable, "-X", "importtime", *command])
    median_s = statistics.median(seconds)
    if options.json:
        answer = {
            "command": "sparkctl --help",
            "runs": options.runs,
            "median_s": median_s,
            "least_s": min(seconds),
            "most_s": max(seconds),
            "wanted_s": WANTED_S,
            "python": sys.version.split()[0],
            "modules": len(found),
            "imports": [asdict(one) for one in found[:SHOWN]],
        }
        print(json.dumps(answer, indent=2))
    else:
        print(
            f"sparkctl --help: median {median_s:.3f} s of {options.runs} ({min(seconds):.3f} to {max(seconds):.3f})"
        )
        print(
            f"wanted: below {WANTED_S} s; {len(found)} modules imported, the heaviest with what they import:"
        )
        for one in found[:SHOWN]:
            print(f"  {one.total_ms:7.1f} ms  {one.own_ms:6.1f} ms own  {one.module}")
    return 0 if median_s < WANTED_S else 1


def wall_s(command: list[str]) -> float:
    """Run the command once and return its wall time in seconds."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def imports(command: list[str]) -> list[Import]:
    """Run the command once under `-X importtime` and return its imports, the heaviest first."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    found = [
        Import(module=match[4], own_ms=int(match[1]) / 1000, total_ms=int(match[2]) / 1000)
        for match in LINE.finditer(done.stderr)
    ]
    return sorted(found, key=lambda one: one.total_ms, reverse=True)


if __name__ == "__main__":
    sys.exit(main())
