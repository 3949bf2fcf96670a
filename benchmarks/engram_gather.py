"""How long does the GPU take to bring a step's resident Engram rows to where the forward reads them? One run on one GPU.

Usage: python benchmarks/engram_gather.py [--rows 25000000] [--tokens 1,6,36,128] [--replays 30] [-o FILE.json]

One table of one rank at TP4: 96,000,564 rows of which `--rows` are resident, 264 bytes each (25 million: 6.6 GB), random bytes. Every lookup is
a hit. A CUDA graph holds GATHERS gathers, each of tokens * 6 lookups with ids of its own; before each replay the ids are drawn anew and 512 MB
are written, so that neither rows nor lines lie in the L2. A gather's time is the graph's over GATHERS, the median over replays. The floor is
the same graph of a kernel that does nothing, and of one that only follows three loads, each of which needs the one before. The read ceiling is
a plain read of the table in the same run. `blocks` repeats it with other numbers of lookups a program than the one that ships. Rows are held
against the decoder in NumPy first. A step has two such tables.
Exit code 1 when the bar of 15 us at 36 tokens is missed or a row is wrong, 2 without a CUDA device (`--check` compares rows on the CPU).
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from sparkctl_vllm.engram import device_lookup  # noqa: E402
from sparkctl_vllm.engram.device_lookup import LOOKUPS, Resident  # noqa: E402
from sparkctl_vllm.engram.membership import Membership  # noqa: E402
from sparkctl_vllm.engram.row_format import BYTES, Format, decode  # noqa: E402

TABLE, COLUMNS, GATHERS = 96_000_564, 6, 32
BLOCKS = (1, 2, 4, 8)
BAR_US, BAR_TOKENS = 15.0, 36


def main() -> int:
    """Measure, print, and return 0 when the bar is held."""
    options = asked()
    if options.check:
        small = Table(1000, 40_000, "cpu", "fp8")
        print("rows right" if small.right(7) else "rows wrong")
        return 0 if small.right(7) else 1
    if not torch.cuda.is_available():
        print("no CUDA device: this measures a kernel and needs one", file=sys.stderr)
        return 2
    kinds: tuple[Format, ...] = ("fp8", "fp4")
    cases = [one for kind in kinds for one in of_kind(kind, options)]
    document = {"schema": "sparkctl-engram-gather/1", "device": torch.cuda.get_device_name(), "cases": cases}
    if options.path:
        options.path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document))
    missed = any(one["us"] > BAR_US for one in cases if one["tokens"] == BAR_TOKENS)
    return 1 if missed or not all(one["rows_right"] for one in cases) else 0


def of_kind(kind: Format, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure every step size of one format, and the floor and the ceiling beside it."""
    table = Table(options.rows, TABLE, "cuda", kind)
    beside = {
        "kind": kind,
        "gb": table.rows.numel() / 1e9,
        "ceiling_gb_per_s": table.read_ceiling(),
        "empty_kernel_us": timed(
            lambda: [nothing[(1,)](table.never) for _ in range(GATHERS)], table.flush, options.replays
        ),
        "three_loads_us": timed(
            lambda: [follow[(1,)](table.chain, table.never, at) for at in range(GATHERS)],
            table.draw_chain,
            options.replays,
        ),
        "rows_right": table.right(options.tokens[-1]),
    }
    return [case(table, tokens, options.replays) | beside for tokens in options.tokens]


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=25_000_000)
    parser.add_argument(
        "--tokens", type=lambda text: [int(one) for one in text.split(",")], default=[1, 6, 36, 128]
    )
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare rows on the CPU, with TRITON_INTERPRET=1, and time nothing",
    )
    parser.add_argument("-o", dest="path", type=Path)
    return parser.parse_args()


class Table:
    """Resident rows on a device, and what a measurement of them needs."""

    def __init__(self, held: int, rows: int, device: str, kind: Format) -> None:
        generator = np.random.default_rng(1)
        picked = np.flatnonzero(generator.random(rows) < held / rows).astype(np.uint32)
        raw = torch.randint(0, 2**62, (-(-len(picked) * BYTES[kind] // 8),), device=device).view(torch.uint8)
        raw.bitwise_and_(0xBF)  # the highest bit of the exponent stays clear: no code is a NaN
        self.rows = raw[: len(picked) * BYTES[kind]].view(len(picked), BYTES[kind])
        self.rows[:, -8:] = 120
        self.device, self.kind, self.picked = (
            device,
            kind,
            torch.from_numpy(picked.astype(np.int64)).to(device),
        )
        self.resident = Resident(self.rows, Membership.of(picked, rows), kind)
        self.never = torch.zeros(1, dtype=torch.int64, device=device)
        self.spoil = torch.empty(2**27 if device == "cuda" else 1, dtype=torch.int32, device=device)
        self.chain = torch.randint(0, 2**24, (2**24 if device == "cuda" else 1,), device=device)

    def draw(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return ids of resident rows."""
        return self.picked[torch.randint(0, len(self.picked), shape, device=self.device)]

    def draw_chain(self) -> None:
        """Make the loads of the chain lead elsewhere, and spoil the L2."""
        self.chain.copy_(self.chain.roll(12345).add_(1).remainder_(len(self.chain)))
        self.flush()

    def flush(self) -> None:
        """Write what fills the L2 several times over."""
        self.spoil.fill_(1)

    def right(self, tokens: int) -> bool:
        """Hold a gather against the decoder in NumPy."""
        ids = self.draw((tokens * COLUMNS,))
        staged = torch.zeros(len(ids), 256, dtype=torch.bfloat16, device=self.device)
        self.resident.gather(ids, staged)
        places = torch.searchsorted(self.picked, ids)
        wanted = decode(self.rows[places].cpu().numpy(), self.kind)
        return bool((staged.cpu().view(torch.int16).numpy().view(np.uint16) == wanted).all())

    def read_ceiling(self) -> float:
        """Return the most GB/s that a plain read of the rows reaches, over several grids."""
        words = self.rows.reshape(-1)[: self.rows.numel() // 8 * 8].view(torch.int64)
        size = words.numel() * 8
        blocks = torch.cuda.get_device_properties(0).multi_processor_count
        found = []
        for grid in (blocks, 2 * blocks, 4 * blocks, 8 * blocks):
            each = triton.cdiv(words.numel(), grid * 4096) * 4096
            us = timed(
                lambda grid=grid, each=each: read[(grid,)](words, self.never, each, words.numel()),
                lambda: None,
                5,
                1,
            )
            found.append(size / us / 1e3)
        return max(found)


@triton.jit
def nothing(never):  # noqa: ANN001, ANN201, D103
    if tl.load(never) == 1:
        tl.store(never, 2)


@triton.jit
def follow(chain, never, at):  # noqa: ANN001, ANN201
    """Three loads, each of which needs the one before: as a lookup follows id, line and row."""
    first = tl.load(chain + at * 4099)
    second = tl.load(chain + first)
    third = tl.load(chain + second)
    if third == -1:
        tl.store(never, third)


@triton.jit
def read(words, never, each, size):  # noqa: ANN001, ANN201
    """Read a part of the memory and do nothing with it."""
    begin = tl.program_id(0).to(tl.int64) * each
    total = tl.zeros((4096,), tl.int64)
    for at in range(0, each, 4096):
        place = begin + at + tl.arange(0, 4096)
        total += tl.load(words + place, mask=place < size, other=0)
    if tl.sum(total, axis=0) == -1:
        tl.store(never, 1)


def timed(
    act: Callable[[], object], before: Callable[[], object], replays: int, parts: int = GATHERS
) -> float:
    """Capture `act` in a CUDA graph and return the median us of one of its `parts`; `before` runs ahead of each replay, untimed."""
    for _ in range(2):
        act()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    found = []
    for _ in range(replays + 3):
        before()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(1e3 * begin.elapsed_time(end) / parts)
    return statistics.median(found[3:])


def case(table: Table, tokens: int, replays: int) -> dict[str, Any]:
    """Time one step size, with what ships and with other numbers of lookups a program."""
    blocks = {block: gathered_us(table, tokens * COLUMNS, block, replays) for block in BLOCKS}
    us, size = blocks[LOOKUPS], tokens * COLUMNS * (BYTES[table.kind] + 64 + 8)
    return {
        "tokens": tokens,
        "lookups": tokens * COLUMNS,
        "us": us,
        "bytes_read": size,
        "gb_per_s": size / us / 1e3,
        "blocks": {str(block): found for block, found in blocks.items()},
    }


def gathered_us(table: Table, lookups: int, block: int, replays: int) -> float:
    """Return the median us of one gather of so many lookups, so many of them a program."""
    ids = table.draw((GATHERS, lookups))
    staged = torch.zeros(GATHERS, lookups, 256, dtype=torch.bfloat16, device="cuda")

    def fresh() -> None:
        ids.copy_(table.draw((GATHERS, lookups)))
        table.flush()

    device_lookup.LOOKUPS = block
    try:
        return timed(
            lambda: [table.resident.gather(ids[at], staged[at]) for at in range(GATHERS)], fresh, replays
        )
    finally:
        device_lookup.LOOKUPS = LOOKUPS


if __name__ == "__main__":
    sys.exit(main())
