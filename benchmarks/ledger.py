"""How long the ledger takes at 100,000 lines: append, list, report and verify, as a user calls them.

Usage: python benchmarks/ledger.py [--lines N] [--repeats N] [--folder DIR] [--json] [-o FILE]

The lines are those of docs/demo/ledger.jsonl, boot by boot and climb after climb with new names, chained anew: a file of some
900 MB, nearly all of it findings and requests. The bars: append below 5 ms, list and report below 2 s, verify below 5 s; medians.
The first read after the file came from elsewhere has no bar and is told apart. Exit code 1 below the bars.
"""

import argparse
import hashlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).parent)
sys.path[:] = [one for one in sys.path if one != HERE]  # this file is called as the package that it measures
from ledger.journal import Journal  # noqa: E402

DEMO = Path(__file__).parents[1] / "docs" / "demo" / "ledger.jsonl"
BARS_S = {"append": 0.005, "list": 2.0, "report": 2.0, "verify": 5.0}
APPENDS = 200


def main() -> int:
    """Make the ledger, measure, print, and return 0 when every bar is held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=100_000, help="rows of the ledger (default 100,000)")
    parser.add_argument("--repeats", type=int, default=5, help="calls of each verb (default 5)")
    parser.add_argument("--folder", type=Path, help="make the ledger in here; default: a temporary folder")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("-o", type=Path, dest="path", help="write the JSON document there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "ledger.jsonl"
        written = write(path, options.lines)
        answer = {"lines": options.lines, "bytes": written, "python": sys.version.split()[0]}
        answer |= measured(path, options.repeats)
    held = all(answer[f"{name}_s"] < bar for name, bar in BARS_S.items())
    answer |= {"bars_s": BARS_S, "held": held}
    text = json.dumps(answer, indent=2)
    if options.path:
        options.path.write_text(text + "\n", encoding="utf-8")
    print(text if options.json else table(answer))
    return 0 if held else 1


def write(path: Path, lines: int) -> int:
    """Write the ledger and return its size; the same lines give the same file."""
    prev = ""
    with path.open("wb") as file:
        for n, (at, kind, line, body) in enumerate(told(lines), start=1):
            unsigned = b'{"at":"%b","body":%b,"kind":"%b","line":%b,"n":%d,"prev":"%b"}' % (
                at,
                body,
                kind,
                line,
                n,
                prev.encode(),
            )
            made = hashlib.sha256(unsigned).hexdigest()
            file.write(
                b'{"n":%d,"at":"%b","kind":"%b","line":%b,"body":%b,"prev":"%b","hash":"%b"}\n'
                % (n, at, kind, line, body, prev.encode(), made.encode())
            )
            prev = made
        return file.tell()


def told(lines: int) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Yield time, kind, line and body of each row, the demo's over and over; each round is a climb of its own."""
    rows = [json.loads(raw) for raw in DEMO.read_bytes().splitlines()]
    own = [row for row in rows if row["kind"] != "import"]
    climb = next(row["body"]["climb"] for row in own if row["kind"] == "plan").encode()
    plain = [
        (row["at"].encode(), row["kind"].encode(), compact(row["line"]), compact(row["body"])) for row in own
    ]
    for n in range(lines):
        turn, at = divmod(n, len(plain))
        when, kind, line, body = plain[at]
        body = body.replace(b'"boot":"boot-', b'"boot":"boot-%d-' % turn).replace(
            climb, b"%b-%d" % (climb, turn)
        )
        yield when, kind, line, body


def compact(value: Any) -> bytes:
    """Return canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def measured(path: Path, repeats: int) -> dict[str, float]:
    """Time each verb in its own process, and appends in this one, each on disk before the next."""
    state = ("--state", str(path.parent))
    first = spent("ledger", "list", *state)
    found = {"first_list_s": first[0], "first_list_cpu_s": first[1]}
    journal = Journal(path)
    appends = [append_s(journal) for _ in range(APPENDS)]
    found |= {"append_s": statistics.median(appends), "append_p99_s": sorted(appends)[int(APPENDS * 0.99)]}
    for name, verb in {
        "list": ("ledger", "list"),
        "report": ("report",),
        "verify": ("ledger", "verify"),
    }.items():
        calls = [spent(*verb, *state) for _ in range(repeats)]
        found[f"{name}_s"], found[f"{name}_cpu_s"] = map(statistics.median, zip(*calls, strict=True))
    return found


def append_s(journal: Journal) -> float:
    """Append one step and return how long that took, its sync among it."""
    body = {
        "simulated": True,
        "boot": "b",
        "stage": "check",
        "state": "began",
        "why": "",
        "recipe_digest": "",
    }
    begin = time.perf_counter()
    journal.append("step", "A", body, "2026-11-30T00:00:00Z")
    return time.perf_counter() - begin


def spent(*arguments: str) -> tuple[float, float]:
    """Run sparkctl once and return its seconds on the wall and on the CPU, which differ where others use this machine too."""
    command = [str(Path(sys.executable).with_name("sparkctl")), *arguments]
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu


def table(answer: dict[str, Any]) -> str:
    """Return the figures as lines of text."""
    head = f"{answer['lines']} lines, {answer['bytes'] / 1e6:.0f} MB, Python {answer['python']}"
    lines = [f"{name:<8} {answer[f'{name}_s']:8.4f} s   wanted below {bar} s" for name, bar in BARS_S.items()]
    return "\n".join(
        (head, *lines, f"first list after the file changed: {answer['first_list_s']:.1f} s, no bar")
    )


if __name__ == "__main__":
    sys.exit(main())
