"""What do the parts of a lookup cost on this machine: asking for rows from disk, waiting for them, and waiting when they have long come?

Usage: python benchmarks/engram_parts.py FOLDER [--rows 1000000] [--steps 300] [--lookups 6] [-o FILE.json]

One table of `--rows` rows in FOLDER, every second one resident, read past the page cache by io_uring. A step looks up `--lookups` rows of which
0, 1, 3 or 6 are not resident. `begin` is the call that gives what is resident and asks for the rest, `wait` the call behind it, `late` the wait
of steps that slept 1.5 ms between the two: what a step still pays with lead time. Microseconds, median and 95th percentile.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in

from sparkctl_vllm.engram import rows_file  # noqa: E402
from sparkctl_vllm.engram.membership import Membership  # noqa: E402
from sparkctl_vllm.engram.reader import Held, Reader, Source  # noqa: E402
from sparkctl_vllm.engram.rows_file import Meaning  # noqa: E402

MISSES = (0, 1, 3, 6)
SLEEP_S = 0.0015


def main() -> int:
    """Write, measure, print, delete."""
    options = asked()
    with TemporaryDirectory(prefix="engram-", dir=options.folder) as folder:
        reader = of_file(Path(folder) / "rows", options.rows)
        cases = [case(reader, misses, options) for misses in MISSES if misses <= options.lookups]
        reader.close()
    document = {"schema": "sparkctl-engram-parts/1", "lookups": options.lookups, "cases": cases}
    if options.path:
        options.path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print("| not resident | begin, us | p95 | wait | p95 | late | p95 |\n|---|---|---|---|---|---|---|")
    for one in cases:
        parts = (f"{one[part][at]:.0f}" for part in ("begin_us", "wait_us", "late_us") for at in (0, 1))
        print(f"| {one['misses']} | {' | '.join(parts)} |")
    return 0


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lookups", type=int, default=6)
    parser.add_argument("-o", dest="path", type=Path)
    return parser.parse_args()


def of_file(path: Path, rows: int) -> Reader:
    """Write a table and open a reader on it, every second row resident."""
    table = np.random.default_rng(0).integers(0, 100, (rows, 264), dtype=np.uint8)
    meaning = Meaning(
        holds="all", layer=1, rank=0, ranks=1, begin=0, end=rows, rows=rows, kind="fp8", checkpoint={}
    )
    source = Source.of_file(path, rows_file.write(path, meaning, None, [table]))
    ids = np.arange(0, rows, 2, dtype=np.uint32)
    held = Held(rows=table[ids], membership=Membership.of(ids, rows))
    return Reader(source, held=held, engine="uring", direct=True)


def case(reader: Reader, misses: int, options: argparse.Namespace) -> dict[str, object]:
    """Time so many steps with so many misses, at once and with sleep between."""
    generator = np.random.default_rng(misses)
    out = np.zeros((options.lookups, 256), dtype=np.uint16)
    begins, waits, late = [], [], []
    for sleeps in (False, True):
        for _ in range(options.steps):
            ids = generator.integers(0, options.rows // 2, options.lookups) * 2
            ids[:misses] += 1
            began = time.perf_counter()
            reader.begin(ids, out)
            asked_for = time.perf_counter()
            if sleeps:
                time.sleep(SLEEP_S)
            waits_from = time.perf_counter()
            reader.wait(out)
            (late if sleeps else waits).append(1e6 * (time.perf_counter() - waits_from))
            begins.append(1e6 * (asked_for - began))
    spread = {
        name: [float(np.percentile(own, at)) for at in (50, 95)]
        for name, own in (("begin_us", begins), ("wait_us", waits), ("late_us", late))
    }
    return {"misses": misses, **spread}


if __name__ == "__main__":
    sys.exit(main())
