"""How long `sparkctl --help` and `sparkctl tune --plan` take, warm, and which imports they pay for.

Usage: python benchmarks/cli_start.py [--runs N] [--json]
The bars are 0.25 and 1 s, on a machine that does nothing else. The first run of each warms the file cache and is not counted.
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
from tempfile import TemporaryDirectory

SHOWN = 15
# "import time:      1234 |       5678 |   package.module": own and cumulative microseconds
LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| (\s*)(\S+)")


BARS_S = {
    "--help": 0.25,
    "tune --plan --line A --ladder demo --boots 24 --rehearsal": 1.0,
    "tune --plan --line A --ladder v41-flash --rehearsal": 1.0,
}
"""Arguments, and the seconds within which they have to be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One module that start-up imported; milliseconds of its own body, and with what it imported."""

    module: str
    own_ms: float
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One call: seconds of wall time over its runs, and the heaviest imports of another run."""

    arguments: str
    runs: int
    median_s: float
    least_s: float
    most_s: float
    wanted_s: float
    python: str
    modules: int
    imports: tuple[Import, ...]


def main() -> int:
    """Measure, print, and return 0 when every median is below its bar, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15, help="counted runs (default 15)")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="sparkctl-start-") as folder:
        starts = [start(arguments, wanted, options.runs, folder) for arguments, wanted in BARS_S.items()]
    if options.json:
        print(json.dumps([asdict(one) for one in starts], indent=2))
    else:
        print("\n".join(told(one) for one in starts))
    return 0 if all(one.median_s < one.wanted_s for one in starts) else 1


def start(arguments: str, wanted_s: float, runs: int, folder: str) -> Start:
    """Time one call in a folder of its own, where a verb keeps its state, and look once at what it imports."""
    command = [str(Path(sys.executable).with_name("sparkctl")), *arguments.split()]
    seconds = [wall_s(command, folder) for _ in range(runs + 1)][1:]
    found = imports([sys.executable, "-X", "importtime", *command], folder)
    return Start(
        arguments=arguments,
        runs=runs,
        median_s=statistics.median(seconds),
        least_s=min(seconds),
        most_s=max(seconds),
        wanted_s=wanted_s,
        python=sys.version.split()[0],
        modules=len(found),
        imports=tuple(found[:SHOWN]),
    )


def told(one: Start) -> str:
    """Return it in lines."""
    return "\n".join(
        (
            f"sparkctl {one.arguments}: median {one.median_s:.3f} s of {one.runs} ({one.least_s:.3f} to {one.most_s:.3f})",
            f"wanted: below {one.wanted_s} s; {one.modules} modules imported, the heaviest with what they import:",
            *(f"  {each.total_ms:7.1f} ms  {each.own_ms:6.1f} ms own  {each.module}" for each in one.imports),
        )
    )


def wall_s(command: list[str], folder: str) -> float:
    """Run the command once and return its wall time in seconds."""
    start = time.perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


def imports(command: list[str], folder: str) -> list[Import]:
    """Run the command once under `-X importtime` and return its imports, the heaviest first."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True
    )
    found = [
        Import(module=match[4], own_ms=int(match[1]) / 1000, total_ms=int(match[2]) / 1000)
        for match in LINE.finditer(done.stderr)
    ]
    return sorted(found, key=lambda one: one.total_ms, reverse=True)


if __name__ == "__main__":
    sys.exit(main())
