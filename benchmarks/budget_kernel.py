"""How fast is a budget read, against the bytes that it reads? One run on one GPU, everything that is compared measured side by side.

Usage: python benchmarks/budget_kernel.py [--rows 1,2,4,8,16,32,64] [--replays 15] [--layers 8] [--quick] [-o FILE.json] [--plot FILE.png]

One rank's shard of DeepSeek-V4.1 Flash at TP4 (384 experts, top-6, hidden 5120, 9 tiles of 64 neurons, MXFP4, clamp 10), random weights: they
prove time, never quality. A CUDA graph of 40 layers over 8 different ones; routing is fresh before every replay; planning is included; a layer's
time is the median over replays of the graph's time over 40. Bytes are those of the tiles that the plan needs, each once. Importances are
synthetic (sorted lognormal, sigma 1.2); prices are fixed, calibrated on other steps than those that are timed. The read ceiling and the
SM clock are measured in the same run. Exit code 1 when a bar is missed, 2 without a CUDA device.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import torch  # noqa: E402 - found beside the plug-in

from budget_kernel_report import Case, Ceiling, document, faults, plotted, table  # noqa: E402
from sparkctl_vllm import native  # noqa: E402
from sparkctl_vllm.step import Priced, Rows  # noqa: E402
from sparkctl_vllm.tiles import bytes_of  # noqa: E402

LAYERS = 40
SHAPE = {"top_k": 6, "experts": 384, "tiles": 9, "hidden": 5120, "limit": 10.0}
SIGMA = 1.2
PIECES = 192
"""Pieces of a tile, each its codes and then its scales."""
POOL = 64
"""Steps of routing that a graph is fed from, per layer."""
NONE = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Packs of several layers and their importances, [tiles, experts] each."""

    packs: list[torch.Tensor]
    importances: list[torch.Tensor]


def main() -> int:
    """Measure, print, and return 0 when the bars are held."""
    options = asked()
    if not torch.cuda.is_available():
        print("no CUDA device: this measures a kernel and needs one", file=sys.stderr)
        return 2
    torch.manual_seed(options.seed)
    weights = made(options.layers)
    ceiling = read_ceiling(weights.packs)
    cases = [
        one
        for rows in options.rows
        for one in of_step_size(
            rows, weights, replays=options.replays, quick=options.quick, sigma=options.skew
        )
    ]
    again = read_ceiling(weights.packs)
    best = max(ceiling, again, key=lambda one: one.gb_per_s)
    found = faults(cases, best)
    answer = document(cases, best, (ceiling, again), found, device=torch.cuda.get_device_name())
    if options.path:
        options.path.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    if options.plot:
        plotted(cases, best, options.plot)
    print(json.dumps(answer, indent=2) if options.json else table(cases, best, found))
    return 1 if found else 0


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--rows", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 4, 8, 16, 32, 64]
    )
    parser.add_argument("--replays", type=int, default=15)
    parser.add_argument(
        "--layers", type=int, default=8, help="different layers in memory; fewer than 8 lets the L2 help"
    )
    parser.add_argument("--quick", action="store_true", help="full depth and one half only")
    parser.add_argument("--skew", type=float, default=0.0, help="sigma of the experts' lognormal popularity")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-o", dest="path", type=Path)
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


def made(layers: int) -> Weights:
    """Return layers of random weights and sorted importances."""
    experts, tiles = int(SHAPE["experts"]), int(SHAPE["tiles"])
    packs = random_packs(layers, experts, tiles)
    tables = [
        (SIGMA * torch.randn(experts, tiles, device="cuda"))
        .exp()
        .sort(dim=1, descending=True)
        .values.T.contiguous()
        for _ in range(layers)
    ]
    return Weights(packs=packs, importances=tables)


def random_packs(count: int, experts: int, tiles: int) -> list[torch.Tensor]:
    """Return packs, uint8 [experts, tiles, bytes]: every code as likely, scales of a few octaves, as real ones have."""
    hidden, packs = int(SHAPE["hidden"]), []
    for _ in range(count):
        pack = torch.randint(0, 256, (experts, tiles, bytes_of(hidden)), dtype=torch.uint8, device="cuda")
        scales = pack.view(experts, tiles, PIECES, -1)[..., -hidden // 32 :]
        scales.copy_(torch.randint(115, 120, scales.shape, dtype=torch.uint8, device="cuda"))
        packs.append(pack)
    return packs


def read_ceiling(packs: Sequence[torch.Tensor]) -> Ceiling:
    """Return the most bytes a second that a plain read of the same memory reaches, over several grids."""
    source = Path(__file__).with_name("read_ceiling.cu")
    major, minor = torch.cuda.get_device_capability()
    ruler = ctypes.CDLL(str(native.build(f"{major}{minor}", source)))
    never = torch.zeros(1, dtype=torch.int32, device="cuda")
    size = packs[0].numel()
    count = torch.cuda.get_device_properties(0).multi_processor_count
    found = []
    for blocks in (count, 2 * count, 4 * count):

        def read(blocks: int = blocks) -> None:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            for pack in packs:
                ruler.read_memory(
                    ctypes.c_void_p(pack.data_ptr()),
                    ctypes.c_size_t(size),
                    ctypes.c_void_p(never.data_ptr()),
                    blocks,
                    stream,
                )

        times, clock, watts = timed(captured(read), lambda: None, 7)
        found.append(
            Ceiling(
                gb_per_s=size * len(packs) / statistics.median(times) / 1e3,
                blocks=blocks,
                clock_mhz=clock,
                watts=watts,
            )
        )
    return max(found, key=lambda one: one.gb_per_s)


def of_step_size(rows: int, weights: Weights, *, replays: int, quick: bool, sigma: float) -> list[Case]:
    """Return every case of one step size."""
    picks, routed = routing(rows, POOL, sigma)
    train_picks, train_weights = routing(rows, POOL, sigma)
    bench = Bench(rows, weights, picks, routed)
    loads = loads_of(train_picks, train_weights)
    tiles = SHAPE["tiles"]
    cases = [bench.case("full", price=0.0, floor=tiles, replays=replays)]
    for share in (0.5,) if quick else (0.75, 0.5, 0.25):
        price = price_of(loads, weights.importances[0], share)
        cases.append(bench.case(f"water-filled {share:g}", price=price, floor=1, replays=replays))
    for depth in () if quick else (7, 5, 3):
        cases.append(bench.case(f"uniform {depth}/{tiles}", price=NONE, floor=depth, replays=replays))
        price = price_of(loads, weights.importances[0], depth / tiles)
        cases.append(bench.case(f"water-filled {depth}/{tiles}", price=price, floor=1, replays=replays))
    return cases


class Bench:
    """A graph of 40 layers for one step size, fed with fresh routing before each replay."""

    def __init__(self, rows: int, weights: Weights, picks: torch.Tensor, routed: torch.Tensor) -> None:
        self.rows, self.weights = rows, weights
        self.pool = (picks, routed)
        self.picks, self.routed = picks[:LAYERS].clone(), routed[:LAYERS].clone()
        self.x = torch.randn(LAYERS, rows, SHAPE["hidden"], device="cuda").bfloat16()
        self.valid = torch.tensor([rows], dtype=torch.int32, device="cuda")
        self.price = torch.zeros(1, device="cuda")
        self.out = torch.empty(LAYERS, rows, SHAPE["hidden"], device="cuda")
        self.kernel = native.Kernel(native.Shape(rows=rows, **SHAPE), torch.device("cuda"))

    def case(self, name: str, *, price: float, floor: int, replays: int) -> Case:
        """Time one way of reading."""
        self.price.fill_(price)
        graph = captured(lambda: self._layers(floor))
        tiles: list[float] = []

        def fresh() -> None:
            chosen = torch.randperm(len(self.pool[0]), device="cuda")[:LAYERS]
            self.picks.copy_(self.pool[0][chosen])
            self.routed.copy_(self.pool[1][chosen])
            tiles.append(self._tiles(price, floor))

        times, clock, watts = timed(graph, fresh, replays)
        kept = tiles[-replays:]
        return Case(
            rows=self.rows, name=name, us=statistics.median(times) / LAYERS, each_us=tuple(one / LAYERS for one in times),
            megabytes=statistics.mean(kept) * bytes_of(SHAPE["hidden"]) / 1e6, clock_mhz=clock, watts=watts,
        )  # fmt: skip

    def _layers(self, floor: int) -> None:
        packs, tables = self.weights.packs, self.weights.importances
        for layer in range(LAYERS):
            one = layer % len(packs)
            how = Priced(importance=tables[one], price=self.price, floor=floor)
            rows = Rows(x=self.x[layer], picks=self.picks[layer], weights=self.routed[layer])
            self.kernel(packs[one], how, rows, self.valid, self.out[layer])

    def _tiles(self, price: float, floor: int) -> float:
        """Return the mean unique tiles a layer of what is about to be replayed."""
        loads = loads_of(self.picks, self.routed)
        count = len(self.weights.importances)
        tables = torch.stack([self.weights.importances[layer % count] for layer in range(LAYERS)])
        deep = (loads[:, None, :].float() * tables > price).sum(1).clamp(min=floor)
        return float(torch.where(loads > 0, deep, 0).sum(1).float().mean())


def routing(rows: int, steps: int, sigma: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return picks int32 and router weights float32 of many steps, [steps, rows, top-k]; sigma 0 makes every expert as likely."""
    taste = sigma * torch.randn(steps, 1, SHAPE["experts"], device="cuda")
    noise = -torch.log(
        -torch.log(torch.rand(steps, rows, SHAPE["experts"], device="cuda").clamp(1e-7, 1 - 1e-7))
    )
    picks = (taste + noise).topk(SHAPE["top_k"], dim=-1).indices.int().contiguous()
    weights = torch.rand(steps, rows, SHAPE["top_k"], device="cuda") + 0.05
    return picks, (1.5 * weights / weights.sum(-1, keepdim=True)).contiguous()


def loads_of(picks: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return integer loads, [steps, experts], as the kernel counts them."""
    squares = torch.round(weights * weights * (1 << 20)).clamp(min=1).int()
    loads = torch.zeros(len(picks), SHAPE["experts"], dtype=torch.int32, device="cuda")
    return loads.scatter_add_(1, picks.flatten(1).long(), squares.flatten(1))


def price_of(loads: torch.Tensor, importance: torch.Tensor, share: float) -> float:
    """Return the price at which these steps read that share of the full depth on average."""
    whole = float((loads > 0).sum()) * len(importance)
    worth = loads[:, None, :].float() * importance
    low, high = 0.0, float(worth.max())
    for _ in range(50):
        middle = (low + high) / 2
        read = float(torch.where(loads > 0, (worth > middle).sum(1).clamp(min=1), 0).sum())
        low, high = (middle, high) if read > share * whole else (low, middle)
    return high


def captured(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Return a graph of the work, which ran once before, so that NCCL too has its buffers."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def timed(
    graph: torch.cuda.CUDAGraph, fresh: Callable[[], None], replays: int
) -> tuple[list[float], float, float]:
    """Return microseconds of each replay, and the SM clock in MHz and the power in W just after them, under the same load."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for turn in range(replays + 3):
        fresh()
        torch.cuda.synchronize()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if turn >= 3:
            times.append(begin.elapsed_time(end) * 1e3)
    for _ in range(max(1, int(60e3 / statistics.median(times)))):
        graph.replay()
    clock, watts = gauges()
    torch.cuda.synchronize()
    return times, clock, watts


def gauges() -> tuple[float, float]:
    """Return the SM clock in MHz and the power in W, read while the device works."""
    argv = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0"]
    clock, watts = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split(",")
    return float(clock), float(watts)


if __name__ == "__main__":
    sys.exit(main())
