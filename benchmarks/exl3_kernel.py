"""How fast is a budget read of EXL3 experts, against the bytes that it reads? One run on one GPU, everything compared side by side.

Usage: python benchmarks/exl3_kernel.py [--rows 1,4,16,32,64] [--replays 9] [--layers 8] [--quick] [-o FILE.json] [--plot FILE.png]

One rank's shard of DeepSeek-V4.1 Flash at TP4 (384 experts, top-6, hidden 5120, 640 neurons, MUL1, clamp 10), random trellis words: they prove
time, never quality. A CUDA graph of 40 layers over several different ones; routing is fresh before every replay; planning is included; a
layer's time is the median over replays of the graph's time over 40. Bytes are those of trellis that the plan needs, each once. Half the
blocks are water-filled by synthetic importances (sorted lognormal, sigma 1.2) at a price calibrated on other steps. In the same run: the
read ceiling, the rate of decoding and multiplying alone, our MXFP4 kernel at the same number of neurons and cut, and the SM clock.
Exit code 1 when a bar is missed, 2 without a CUDA device.
"""

import argparse
import ctypes
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import torch  # noqa: E402 - found beside the plug-in

import budget_kernel  # noqa: E402
from budget_kernel import captured, loads_of, price_of, routing, timed  # noqa: E402
from budget_kernel_report import Case  # noqa: E402
from exl3_kernel_report import FULL, HALF, Decoded, Group, document, faults, plotted, table  # noqa: E402
from exl3_kernel_sass import per_weight  # noqa: E402
from sparkctl_vllm import native  # noqa: E402
from sparkctl_vllm.exl3 import kernel  # noqa: E402
from sparkctl_vllm.exl3.kernel_operands import Shape  # noqa: E402
from sparkctl_vllm.exl3.kernel_pack import Packed  # noqa: E402
from sparkctl_vllm.step import Priced, Rows  # noqa: E402

LAYERS = 40
HIDDEN, NEURONS, EXPERTS, TOP_K = 5120, 640, 384, 6
SIGMA = 1.2
POOL = 64
"""Steps of routing that a graph is fed from, per layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Random layers of one rate, and their importances, [tiles, experts] each."""

    bits: int
    layers: list[Packed]
    importances: list[torch.Tensor]

    @property
    def tile_bytes(self) -> int:
        """Bytes of trellis of 128 neurons."""
        return 3 * HIDDEN * 128 * self.bits // 8


def main() -> int:
    """Measure, print, and return 0 when the bars are held."""
    options = asked()
    if not torch.cuda.is_available():
        print("no CUDA device: this measures a kernel and needs one", file=sys.stderr)
        return 2
    torch.manual_seed(options.seed)
    groups: list[Group] = []
    decoded: list[Decoded] = []
    ceilings = []
    for bits in (3, 4, 2):
        weights = made(bits, options.layers)
        if bits == 3:
            ceilings.append(budget_kernel.read_ceiling([one.pieces[0].flatten() for one in weights.layers]))
        for exact in (False, True):
            decoded.append(decode_rate(weights, exact=exact))
            groups.append(measured(weights, exact=exact, options=options))
        if bits == 3:
            ceilings.append(budget_kernel.read_ceiling([one.pieces[0].flatten() for one in weights.layers]))
        del weights
        torch.cuda.empty_cache()
    groups.append(beside(options))
    ceiling = max(ceilings, key=lambda one: one.gb_per_s)
    found = faults(groups, decoded, ceiling)
    answer = document(groups, decoded, ceiling, found, device=torch.cuda.get_device_name())
    if options.path:
        options.path.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    if options.plot:
        plotted(groups, ceiling, options.plot)
    print(json.dumps(answer, indent=2) if options.json else table(groups, decoded, ceiling, found))
    return 1 if found else 0


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--rows", type=lambda text: [int(one) for one in text.split(",")], default=[1, 4, 16, 32, 64]
    )
    parser.add_argument("--replays", type=int, default=9)
    parser.add_argument("--layers", type=int, default=8, help="different layers in memory")
    parser.add_argument("--quick", action="store_true", help="K = 3 at every row count, others at 64 alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-o", dest="path", type=Path)
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


def made(bits: int, layers: int) -> Weights:
    """Return random layers, scales such that gate, up and the output are of about 1."""
    return Weights(
        bits=bits,
        layers=[
            Packed(
                pieces=(words(bits, 8, NEURONS), words(bits, 8, NEURONS), words(bits, 1, HIDDEN)),
                suh=(scales(HIDDEN, 1.0), scales(HIDDEN, 1.0), scales(NEURONS, 1.0)),
                svh=(
                    scales(NEURONS, HIDDEN**-0.5),
                    scales(NEURONS, HIDDEN**-0.5),
                    scales(HIDDEN, NEURONS**-0.5),
                ),
            )
            for _ in range(layers)
        ],
        importances=importances(NEURONS // 128, layers),
    )


def words(bits: int, inputs: int, outputs: int) -> torch.Tensor:
    """Return random pieces of a matrix of all experts: `inputs` times 640 by `outputs`."""
    size = (EXPERTS, outputs // 128, inputs * 10, 2, bits, 32, 4)
    return torch.randint(-(1 << 31), 1 << 31, size, dtype=torch.int32, device="cuda")


def scales(width: int, size: float) -> torch.Tensor:
    """Return random suh or svh of all experts."""
    signs = 1 - 2 * torch.randint(0, 2, (EXPERTS, width), device="cuda")
    return (signs * size * (0.5 + torch.rand(EXPERTS, width, device="cuda"))).half()


def importances(tiles: int, layers: int) -> list[torch.Tensor]:
    """Return sorted lognormal tables, [tiles, experts]."""
    drawn = ((SIGMA * torch.randn(EXPERTS, tiles, device="cuda")).exp() for _ in range(layers))
    return [one.sort(dim=1, descending=True).values.T.contiguous() for one in drawn]


def decode_rate(weights: Weights, *, exact: bool) -> Decoded:
    """Return how fast the pieces of all layers are decoded and multiplied with nothing else to do, and the instructions that takes."""
    source = Path(__file__).with_name("exl3_decode.cu")
    major, minor = torch.cuda.get_device_capability()
    library = native.build(f"{major}{minor}", source)
    ruler, never = ctypes.CDLL(str(library)), torch.zeros(1, dtype=torch.int32, device="cuda")
    packs = [one.pieces[0] for one in weights.layers]
    size = packs[0].numel() * 4
    blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def read() -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for pack in packs:
            ruler.decode_memory(
                ctypes.c_void_p(pack.data_ptr()),
                ctypes.c_size_t(size),
                weights.bits,
                int(exact),
                ctypes.c_void_p(never.data_ptr()),
                blocks,
                stream,
            )

    times, clock, watts = timed(captured(read), lambda: None, 7)
    return Decoded(
        bits=weights.bits,
        exact=exact,
        gb_per_s=size * len(packs) / statistics.median(times) / 1e3,
        instructions=per_weight(library).get((weights.bits, exact)),
        clock_mhz=clock,
        watts=watts,
    )


def measured(weights: Weights, *, exact: bool, options: argparse.Namespace) -> Group:
    """Return the cases of one rate and way to decode."""
    lone = options.quick and (weights.bits != 3 or exact)
    cases = []
    for rows in (64,) if lone else options.rows:
        shape = Shape(
            rows=rows,
            top_k=TOP_K,
            experts=EXPERTS,
            tiles=NEURONS // 128,
            hidden=HIDDEN,
            limit=10.0,
            bits=(weights.bits,) * 3,
            exact=exact,
        )
        bench = Bench(kernel.Kernel(shape, torch.device("cuda")), weights, rows)
        cases += bench.cases(options.replays, half=not exact)
    return Group(
        name=f"EXL3 K={weights.bits} {'exact' if exact else 'fast'}",
        bits=weights.bits,
        exact=exact,
        cases=tuple(cases),
    )


def beside(options: argparse.Namespace) -> Group:
    """Return our MXFP4 kernel on as many neurons, cut by the same rule."""
    tiles = NEURONS // 64
    size = native.tiles.bytes_of(HIDDEN)
    packs = [
        torch.randint(0, 256, (EXPERTS, tiles, size), dtype=torch.uint8, device="cuda")
        for _ in range(options.layers)
    ]
    for pack in packs:
        exponents = pack.view(EXPERTS, tiles, budget_kernel.PIECES, -1)[..., -HIDDEN // 32 :]
        exponents.copy_(torch.randint(115, 120, exponents.shape, dtype=torch.uint8, device="cuda"))
    weights = Codes(layers=packs, importances=importances(tiles, options.layers), tile_bytes=size)
    cases = []
    for rows in options.rows:
        shape = native.Shape(rows=rows, top_k=TOP_K, experts=EXPERTS, tiles=tiles, hidden=HIDDEN, limit=10.0)
        cases += Bench(native.Kernel(shape, torch.device("cuda")), weights, rows).cases(
            options.replays, half=True
        )
    return Group(name="MXFP4", bits=None, exact=False, cases=tuple(cases))


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """Random MXFP4 layers, and their importances."""

    layers: list[torch.Tensor]
    importances: list[torch.Tensor]
    tile_bytes: int


class Bench:
    """A graph of 40 layers for one step size, fed with fresh routing before each replay."""

    def __init__(self, call: kernel.Kernel | native.Kernel, weights: Weights | Codes, rows: int) -> None:
        self.call, self.weights, self.rows = call, weights, rows
        self.pool = routing(rows, POOL, 0.0)
        self.train = loads_of(*routing(rows, POOL, 0.0))
        self.picks, self.routed = (one[:LAYERS].clone() for one in self.pool)
        self.x = torch.randn(LAYERS, rows, HIDDEN, device="cuda").bfloat16()
        self.valid = torch.tensor([rows], dtype=torch.int32, device="cuda")
        self.price = torch.zeros(1, device="cuda")
        self.out = torch.empty(LAYERS, rows, HIDDEN, device="cuda")

    def cases(self, replays: int, *, half: bool) -> list[Case]:
        """Return full depth, and half the blocks where that is asked for."""
        tiles = self.weights.importances[0].shape[0]
        found = [self._case(FULL, 0.0, tiles, replays)]
        if half:
            price = price_of(self.train, self.weights.importances[0], 0.5)
            found.append(self._case(HALF, price, 1, replays))
        return found

    def _case(self, name: str, price: float, floor: int, replays: int) -> Case:
        self.price.fill_(price)
        graph = captured(lambda: self._layers(floor))
        tiles: list[float] = []

        def fresh() -> None:
            chosen = torch.randperm(POOL, device="cuda")[:LAYERS]
            self.picks.copy_(self.pool[0][chosen])
            self.routed.copy_(self.pool[1][chosen])
            tiles.append(self._tiles(price, floor))

        times, clock, watts = timed(graph, fresh, replays)
        return Case(
            rows=self.rows, name=name, us=statistics.median(times) / LAYERS, each_us=tuple(one / LAYERS for one in times),
            megabytes=statistics.mean(tiles[-replays:]) * self.weights.tile_bytes / 1e6, clock_mhz=clock, watts=watts,
        )  # fmt: skip

    def _layers(self, floor: int) -> None:
        layers, tables = self.weights.layers, self.weights.importances
        for layer in range(LAYERS):
            one = layer % len(layers)
            how = Priced(importance=tables[one], price=self.price, floor=floor)
            rows = Rows(x=self.x[layer], picks=self.picks[layer], weights=self.routed[layer])
            self.call(layers[one], how, rows, self.valid, self.out[layer])  # type: ignore[arg-type]

    def _tiles(self, price: float, floor: int) -> float:
        loads = loads_of(self.picks, self.routed)
        tables = self.weights.importances
        stacked = torch.stack([tables[layer % len(tables)] for layer in range(LAYERS)])
        deep = (loads[:, None, :].float() * stacked > price).sum(1).clamp(min=floor)
        return float(torch.where(loads > 0, deep, 0).sum(1).float().mean())


if __name__ == "__main__":
    sys.exit(main())
