"""What does a step wait for its Engram rows? All-disk, split on the CPU as published, and ours, side by side in one run on real files.

Usage: python benchmarks/engram.py FOLDER [--rows 38400000] [--steps 300] [--tokens 1,6,36] [--coverage 43,74,92.7] [-o FILE.json]

One rank at TP4: two tables (layers 1 and 14) of `--rows` rows each, 6 lookups a token and table, ids drawn by the published coverage curve
(engram_trace.py), so that the hottest part of a table answers what it answers in one of the real size. Both tables are written into FOLDER in
both layouts, 4 * rows * 264 bytes, and deleted at the end; 10 GB must stay free. All paths put bfloat16 rows into the same array, take the
same ids in each step, one after the other in an order drawn anew, and are checked against the file's bytes.

Memory is the same for all: what resident rows take in ours, the all-disk paths get as page cache, filled with the pages of the hottest rows;
pages that a step brings in beyond those are given back. All of it has been read once before the first step. Ours reads its misses past the
page cache. `with lead`: a thread of its own asks before the forward, as the CUDA driver's does where rows are staged on a GPU
(engram_beside.py), and the step sleeps as a forward would compute: layer 1 wants its rows after `--lead-1` ms, layer 14 after `--lead-14` ms;
what it waits is the handing over and what is left then. Exit code 1 when ours is slower than all-disk beyond the interval, or a row is wrong.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_THREAD, getrusage
from tempfile import mkdtemp

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in

from engram_beside import Beside, Rows  # noqa: E402
from engram_files import Cache, Table, read_rows, rows_at, touch, written  # noqa: E402
from engram_published import Published  # noqa: E402
from engram_report import Case, faults, told  # noqa: E402
from engram_trace import Popularity  # noqa: E402
from sparkctl_vllm.engram.membership import Membership  # noqa: E402
from sparkctl_vllm.engram.reader import Held, Reader  # noqa: E402
from sparkctl_vllm.engram.row_format import decode  # noqa: E402
from sparkctl_vllm.engram.row_ids import Ids  # noqa: E402

LAYERS, COLUMNS = (1, 14), 6
SPARE = 10 * 10**9
LEAD_MS = {1: 1.45, 14: 20.3}
"""One layer of a step of 58 ms over 40 layers, and fourteen: C1 of tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark (3.57 accepted a step at 61.1
tokens a second). Others' figure, GB10; at C6 a step took 107 ms."""

Look = Callable[[Sequence[Ids], Sequence[Rows]], float]
"""Puts the rows of both tables' ids into both arrays; returns the seconds that the step waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """What one coverage needs: paths by name, the readers and caches behind them."""

    paths: dict[str, Look]
    caches: list[Cache]
    closing: list[Callable[[], None]]
    kept: int


def main() -> int:
    """Write, measure, print, delete; 0 when ours holds."""
    options = asked()
    wanted = 4 * options.rows * 264 + SPARE
    if not options.folder.is_dir():
        print(
            f"{options.folder}: no such folder; name one on the disk that is to be measured", file=sys.stderr
        )
        return 2
    free = shutil.disk_usage(options.folder).free
    if free < wanted:
        print(
            f"{options.folder}: {free / 1e9:.1f} GB free, wanted {wanted / 1e9:.1f}: take fewer --rows",
            file=sys.stderr,
        )
        return 2
    folder = Path(mkdtemp(prefix="engram-", dir=options.folder))
    try:
        return measured(options, folder)
    finally:
        shutil.rmtree(folder)


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--rows", type=int, default=38_400_000, help="rows of each table; a rank's real one has 96 million"
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tokens", type=_numbers, default=[1, 6, 36])
    parser.add_argument(
        "--coverage",
        type=_numbers,
        default=[43, 74, 92.7],
        help="percent of lookups that resident rows answer",
    )
    parser.add_argument("--engine", choices=["uring", "threads"], default="uring")
    parser.add_argument("--lead-1", type=float, default=LEAD_MS[1])
    parser.add_argument("--lead-14", type=float, default=LEAD_MS[14])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", dest="path", type=Path)
    return parser.parse_args()


def _numbers(text: str) -> list[float]:
    return [float(one) for one in text.split(",")]


def measured(options: argparse.Namespace, folder: Path) -> int:
    """Measure every coverage and step size, and judge."""
    tables = [written(folder, layer, options.rows) for layer in LAYERS]
    popular = [Popularity.of(options.rows, seed) for seed in (1, 2)]
    cases: list[Case] = []
    for percent in options.coverage:
        made = of_coverage(tables, popular, percent / 100, options)
        for tokens in options.tokens:
            print(f"{percent:g} % resident, {tokens:g} tokens a step", file=sys.stderr, flush=True)
            cases += steps(made, popular, round(tokens), percent, options)
        for close in made.closing:
            close()
    document = {
        "schema": "sparkctl-engram-bench/1",
        "machine": {"cores": os.cpu_count(), "engine": options.engine, "kernel": os.uname().release},
        "rows": options.rows,
        "lead_ms": [options.lead_1, options.lead_14],
        "cases": [one.document() for one in cases],
        "faults": faults(cases),
    }
    if options.path:
        options.path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(told(cases))
    for fault in document["faults"]:
        print(f"fault: {fault}")
    return 1 if document["faults"] else 0


def of_coverage(
    tables: Sequence[Table], popular: Sequence[Popularity], share: float, options: argparse.Namespace
) -> Set:
    """Keep the rows that answer that share, and give the others as much page cache."""
    ids = [one.hottest(share) for one in popular]
    held = [
        Held(rows=read_rows(table.together, own), membership=Membership.of(own, options.rows))
        for table, own in zip(tables, ids, strict=True)
    ]
    size = held[0].rows.nbytes
    most = 2 * size // 4096
    order = [one.ids(np.arange(min(most, one.rows))) for one in popular]
    together = [Cache(table.together, own, size) for table, own in zip(tables, order, strict=True)]
    apart = [Cache(table.apart, own, size) for table, own in zip(tables, order, strict=True)]
    for one in held:
        touch(one.rows)
    disk = [Reader(table.together, engine=options.engine) for table in tables]
    ours = [
        Reader(table.together, held=own, engine=options.engine, direct=True)
        for table, own in zip(tables, held, strict=True)
    ]
    published = [Published(table.apart, None, own) for table, own in zip(tables, ids, strict=True)]
    split = [Published(table.apart, kept, own) for table, kept, own in zip(tables, held, ids, strict=True)]
    beside = [Beside(readers, (options.lead_1, options.lead_14)) for readers in (disk, ours)]
    paths: dict[str, Look] = {
        "all-disk, as published": lambda asked, out: at_once(published, asked, out),
        "split, as published": lambda asked, out: at_once(split, asked, out),
        "all-disk, native": lambda asked, out: at_start(disk, asked, out),
        "all-disk, native, with lead": beside[0].look_up,
        "ours": lambda asked, out: at_start(ours, asked, out),
        "ours, with lead": beside[1].look_up,
    }
    closing = [one.close for one in (*beside, *disk, *ours, *published, *split, *together, *apart)]
    return Set(paths=paths, caches=[*together, *apart], closing=closing, kept=len(ids[0]))


def at_once(paths: Sequence[Published], asked: Sequence[Ids], out: Sequence[Rows]) -> float:
    """Put everything in place before the forward."""
    begin = time.perf_counter()
    for path, ids, rows in zip(paths, asked, out, strict=True):
        path.look_up(ids, rows)
    return time.perf_counter() - begin


def at_start(readers: Sequence[Reader], asked: Sequence[Ids], out: Sequence[Rows]) -> float:
    """Ask for both tables' rows before the forward, and wait for them there."""
    begin = time.perf_counter()
    for reader, ids, rows in zip(readers, asked, out, strict=True):
        reader.begin(ids, rows)
    for reader, rows in zip(readers, out, strict=True):
        reader.wait(rows)
    return time.perf_counter() - begin


def steps(
    made: Set, popular: Sequence[Popularity], tokens: int, percent: float, options: argparse.Namespace
) -> list[Case]:
    """Measure every path over the same steps, in an order that is drawn anew for each."""
    generator = np.random.default_rng((options.seed, tokens, round(10 * percent)))
    shape = (tokens * COLUMNS,)
    waits: dict[str, list[float]] = {name: [] for name in made.paths}
    alone: dict[str, list[bool]] = {name: [] for name in made.paths}
    outs = {name: [np.zeros((*shape, 256), dtype=np.uint16) for _ in LAYERS] for name in made.paths}
    misses, wrong = [], 0
    names = list(made.paths)
    for step in range(options.steps + 5):
        ranks = [one.draw(generator, shape) for one in popular]
        ids = [one.ids(own) for one, own in zip(popular, ranks, strict=True)]
        if step >= 5:
            misses.append(sum(len(np.unique(own[own >= made.kept])) for own in ranks))
        for name in generator.permutation(
            names
        ).tolist():  # the first to ask warms what lies behind our page cache for the rest
            out = outs[name]
            before = getrusage(RUSAGE_THREAD).ru_nivcsw
            seconds = made.paths[name](ids, out)
            undisturbed = getrusage(RUSAGE_THREAD).ru_nivcsw == before
            for cache, own in zip(made.caches, [*ids, *ids], strict=True):
                cache.evict(own)
            if (
                step < 5
            ):  # the first steps start threads and fill tables; their rows are compared with the files' bytes
                wrong += sum(
                    not right(rows, own, layer) for rows, own, layer in zip(out, ids, LAYERS, strict=True)
                )
            else:
                waits[name].append(1e6 * seconds)
                alone[name].append(undisturbed)
    there = min(one.share_there() for one in made.caches)
    return [
        Case(
            path=name,
            tokens=tokens,
            coverage=percent,
            waits_us=tuple(own),
            alone=tuple(alone[name]),
            misses=float(np.mean(misses)),
            cache_there=there,
            wrong=wrong,
        )
        for name, own in waits.items()
    ]


def right(rows: Rows, ids: Ids, layer: int) -> bool:
    """Hold looked-up rows against the bytes that were written, made anew from their ids."""
    from engram_files import PIECE  # noqa: PLC0415 - the files' own measure

    begins = ids // PIECE * PIECE
    made = {int(begin): rows_at(int(begin), PIECE, layer) for begin in np.unique(begins)[:2]}
    return all(
        (rows[at] == decode(made[int(begin)][ids[at] - begin][None])[0]).all()
        for at, begin in enumerate(begins)
        if int(begin) in made
    )


if __name__ == "__main__":
    sys.exit(main())
