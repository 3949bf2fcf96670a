"""Do Engram's lookups hide behind a step's compute, inside a captured CUDA graph, with rows that come from disk? One run on one GPU.

Usage: python benchmarks/engram_step.py FOLDER [--rows 8000000] [--tokens 1,6,36] [--replays 200] [-o FILE.json]

Two tables of `--rows` rows, 2.1 GB each, written to FOLDER and read through the page cache (what a cold disk takes is not the question here).
So many of a step's rows are not resident: none, as many as the published 92.7 and 74 % leave, all. One graph a case holds the whole step: on a
stream of their own both tables' lookups (GPU gather, host functions that ask and wait, placing), on the main one a wait of the GPU as long as
what lies before layer 1 (1.45 ms) and before layer 14 (20.3 ms, scaled down by 4 to keep the run short), each followed by its table's rows.
`alone` is the same graph without lookups, `bare` the lookups without compute. Ids are drawn anew for each replay. Rows are compared with the
table after every replay: bit for bit, also while graphs replay. Exit code 1 where a row is wrong, 2 without a CUDA device.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402

from sparkctl_vllm.engram import rows_file  # noqa: E402
from sparkctl_vllm.engram.device_lookup import Resident  # noqa: E402
from sparkctl_vllm.engram.membership import Membership  # noqa: E402
from sparkctl_vllm.engram.reader import Held, Reader, Source  # noqa: E402
from sparkctl_vllm.engram.row_format import decode  # noqa: E402
from sparkctl_vllm.engram.rows_file import Meaning  # noqa: E402
from sparkctl_vllm.engram.staging import Staging  # noqa: E402

COLUMNS = 6
LEADS_US = (1450.0, 20300.0 / 4)
SHARES = (1.0, 0.927, 0.74, 0.0)


@dataclass(slots=True, kw_only=True)
class Layer:
    """One table: its rows in a file and on the host, and what a step's graph works on."""

    table: np.ndarray
    held: np.ndarray
    staging: Staging
    ids: torch.Tensor
    staged: torch.Tensor

    def draw(self, share: float, generator: np.random.Generator) -> None:
        """Draw a step's ids: the share of them resident."""
        asked = generator.random(self.ids.numel()) < share
        rows = generator.integers(0, len(self.table), self.ids.numel())
        if len(self.held):
            rows = np.where(asked, self.held[generator.integers(0, len(self.held), len(rows))], rows)
        self.ids.copy_(torch.from_numpy(rows))
        self.staged.fill_(float("nan"))

    def right(self) -> bool:
        """Whether every place holds its row."""
        wanted = decode(self.table[self.ids.cpu().numpy()])
        return bool((self.staged.cpu().view(torch.int16).numpy().view(np.uint16) == wanted).all())


def main() -> int:
    """Measure, print, and return 0 when every row was right."""
    options = asked()
    if not torch.cuda.is_available():
        print("no CUDA device: this measures a captured step and needs one", file=sys.stderr)
        return 2
    sources = [of_table(options.folder, layer, options.rows) for layer in (1, 14)]
    per_us = cycles_per_us()
    cases = [
        one
        for share in SHARES
        for tokens in options.tokens
        for one in [case(sources, share, tokens, options.replays, per_us)]
    ]
    document = {
        "schema": "sparkctl-engram-step/1",
        "device": torch.cuda.get_device_name(),
        "rows": options.rows,
        "leads_us": LEADS_US,
        "cases": cases,
    }
    if options.path:
        options.path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document))
    return 0 if all(one["rows_right"] for one in cases) else 1


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument(
        "--tokens", type=lambda text: [int(one) for one in text.split(",")], default=[1, 6, 36]
    )
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("-o", dest="path", type=Path)
    return parser.parse_args()


def of_table(folder: Path, layer: int, rows: int) -> tuple[Source, np.ndarray]:
    """Write one table's rows file and return where it lies, and its rows."""
    generator = np.random.default_rng(layer)
    table = np.frombuffer(generator.bytes(rows * 264), dtype=np.uint8).reshape(rows, 264) & 0xBF
    table[:, -8:] = 120
    meaning = Meaning(
        holds="all", layer=layer, rank=0, ranks=1, begin=0, end=rows, rows=rows, kind="fp8", checkpoint={}
    )  # fmt: skip
    path = folder / f"rows-{layer}"
    return Source.of_file(path, rows_file.write(path, meaning, None, [table])), table


def of_layer(source: Source, table: np.ndarray, share: float, lookups: int) -> Layer:
    """Open a reader and put half of the table's rows on the device, where any are resident."""
    held = np.arange(0, len(table), 2, dtype=np.uint32) if share else np.zeros(0, dtype=np.uint32)
    membership = Membership.of(held, len(table))
    resident = Resident(torch.from_numpy(table[held]).cuda(), membership, "fp8") if share else None
    lines = Held(rows=np.zeros((0, 264), dtype=np.uint8), membership=membership) if share else None
    reader = Reader(source, held=lines, raw=True)
    return Layer(
        table=table,
        held=held,
        staging=Staging(resident, reader, lookups, torch.device("cuda")),
        ids=torch.zeros(lookups, dtype=torch.int64, device="cuda"),
        staged=torch.zeros(lookups, 256, dtype=torch.bfloat16, device="cuda"),
    )


def case(
    sources: list[tuple[Source, np.ndarray]], share: float, tokens: int, replays: int, per_us: float
) -> dict[str, Any]:
    """Time one share of resident lookups and one step size."""
    layers = [of_layer(source, table, share, tokens * COLUMNS) for source, table in sources]
    generator = np.random.default_rng(tokens)
    right: list[bool] = []

    def fresh() -> None:
        for layer in layers:
            layer.draw(share, generator)

    def held() -> None:
        right.append(all(layer.right() for layer in layers))

    for layer in layers:  # kernels are compiled outside of a capture
        layer.staging.stage(layer.ids, layer.staged)
    both = replayed(lambda: step(layers, per_us), fresh, held, replays)
    alone = replayed(lambda: step([], per_us), fresh, lambda: None, replays // 4)
    bare = replayed(lambda: step(layers, 0.0), fresh, held, replays)
    counted = [layer.staging.reader.counted() for layer in layers]
    for layer in layers:
        layer.staging.reader.close()
    return {
        "share_resident": sum(one["resident"] for one in counted) / sum(sum(one.values()) for one in counted),
        "tokens": tokens,
        "with_us": spread(both),
        "alone_us": spread(alone),
        "bare_us": spread(bare),
        "rows_right": all(right),
        "steps_compared": len(right),
    }


def step(layers: list[Layer], per_us: float) -> None:
    """Put a step on the current stream: the layers' lookups on one of their own, compute as long as the leads unless a us is no cycle."""
    main_stream, aside, done = torch.cuda.current_stream(), torch.cuda.Stream(), []
    aside.wait_stream(main_stream)
    with torch.cuda.stream(aside):
        for layer in layers:
            layer.staging.stage(layer.ids, layer.staged)
            done.append(torch.cuda.Event())
            done[-1].record()
    before = 0.0
    for at, lead in enumerate(LEADS_US):
        if per_us:
            asleep(int(per_us * (lead - before)))
        if layers:
            main_stream.wait_event(done[at])
        before = lead
    main_stream.wait_stream(aside)


def replayed(
    act: Callable[[], object], before: Callable[[], object], after: Callable[[], object], replays: int
) -> list[float]:
    """Capture `act` in one CUDA graph and return the us of each replay."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    found = []
    for _ in range(replays):
        before()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(1e3 * begin.elapsed_time(end))
        after()
    return found


def spread(found: list[float]) -> dict[str, float]:
    """Return the median and the 95th percentile."""
    return {"median": statistics.median(found), "p95": float(np.percentile(found, 95))}


def asleep(cycles: int) -> None:
    """Keep the GPU's stream waiting so long."""
    torch.cuda._sleep(cycles)  # noqa: SLF001 - PyTorch has no other name for it


def cycles_per_us() -> float:
    """Return how many cycles of a sleeping GPU take a microsecond."""
    cycles = 10_000_000
    took = replayed(lambda: asleep(cycles), lambda: None, lambda: None, 5)
    return cycles / statistics.median(took)


if __name__ == "__main__":
    sys.exit(main())
