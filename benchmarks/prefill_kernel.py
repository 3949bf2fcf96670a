"""How fast is a prefill's read of experts from decode's packed weights? Beside bf16 grouped products of torch, in one run on one GPU.

Usage: python benchmarks/prefill_kernel.py [--rows 128,512,2048] [--replays 10] [--skew SIGMA] [--launches] [-o FILE.json]

One rank's shard of DeepSeek-V4.1 Flash at TP4 (384 experts, top-6, hidden 5120, 9 tiles of 64 neurons, MXFP4, clamp 10), random weights: they
prove time, never quality. A CUDA graph of two layers, so that no weights stay in the L2, with fresh routing before every replay; sorting
rows by expert is included; a layer's time is half of the graph's median. `bf16` is torch._grouped_mm over weights that lie decoded beside the packed ones, which a node has no memory for;
`bf16+` decodes each layer before it is used. TFLOP/s count the picks' own products, none of padding; the floor is the bytes of all weights that
are picked, each once, at the read ceiling of the run. Exit code 1 where an output is not within 2 % of bf16's, 2 without a CUDA device.
"""

import argparse
import dataclasses
import functools
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import torch  # noqa: E402 - found beside the plug-in

from budget_kernel import SHAPE, captured, read_ceiling, routing, timed  # noqa: E402
from sparkctl_vllm import experts, mxfp4, native, tiles  # noqa: E402
from sparkctl_vllm.prefill import BLOCKS, Launch, Layout, Prefill  # noqa: E402
from sparkctl_vllm.step import Rows  # noqa: E402

LAYERS = 2
AT_ONCE = 16
"""Experts that are made at a time."""
MOST_OFF = 0.02
"""Relative distance from bf16's output, whose h and weighted sums are bf16."""
EXPERTS, TOP_K, TILES, HIDDEN = (int(SHAPE[one]) for one in ("experts", "top_k", "tiles", "hidden"))
LIMIT, NEURONS = float(SHAPE["limit"]), TILES * experts.TILE


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Weights of one layer: the pack, MXFP4 as the checkpoint has it, and bf16 [experts, out, in]; gate above up."""

    pack: torch.Tensor
    both: experts.Matrix
    down: experts.Matrix
    both_bf16: torch.Tensor
    down_bf16: torch.Tensor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way of reading at one number of rows: microseconds a layer, of the picks' own products and of the bytes' floor."""

    rows: int
    name: str
    us: float
    each_us: tuple[float, ...]
    tflops: float
    floor_us: float
    clock_mhz: float
    watts: float

    @property
    def line(self) -> str:
        """A line of the table."""
        return (
            f"{self.rows:>5} {self.name:<42} {self.us:>9.1f} us {self.tflops:>7.1f} TFLOP/s "
            f"{100 * self.floor_us / self.us:>6.1f} % of the bytes' floor ({self.floor_us:.0f} us), {self.clock_mhz:.0f} MHz {self.watts:.0f} W"
        )


def main() -> int:
    """Measure, print, and return 0 when the outputs agree."""
    options = asked()
    if not torch.cuda.is_available():
        print("no CUDA device: this measures a kernel and needs one", file=sys.stderr)
        return 2
    torch.manual_seed(options.seed)
    layers = [made() for _ in range(LAYERS)]
    ceiling = read_ceiling([one.pack for one in layers]).gb_per_s
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, read ceiling {ceiling:.0f} GB/s")
    cases, worst = [], 0.0
    for rows in options.rows:
        bench = Bench(rows, layers, ceiling, options)
        worst = max(worst, bench.off())
        cases += bench.launches() if options.launches else bench.cases()
    print(f"farthest from bf16's output: {worst:.2e} (at most {MOST_OFF:g})")
    if options.path:
        document = {
            "device": torch.cuda.get_device_name(), "torch": torch.__version__, "read_ceiling_gb_per_s": ceiling,
            "skew": options.skew, "farthest_from_bf16": worst, "cases": [dataclasses.asdict(one) for one in cases],
        }  # fmt: skip
        options.path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0 if worst <= MOST_OFF else 1


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--rows", type=lambda text: [int(one) for one in text.split(",")], default=[128, 512, 2048]
    )
    parser.add_argument("--replays", type=int, default=10)
    parser.add_argument("--skew", type=float, default=0.0, help="sigma of the experts' lognormal popularity")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--launches", action="store_true", help="every block, warps and stages of ours instead of the rivals"
    )
    parser.add_argument("-o", dest="path", type=Path)
    return parser.parse_args()


def made() -> Layer:
    """Return a layer of random codes, scales of a few octaves as real ones have."""
    both, down = (
        random_matrix(*sizes) for sizes in ((EXPERTS, 2 * NEURONS, HIDDEN), (EXPERTS, HIDDEN, NEURONS))
    )
    packs = []
    for begin in range(0, EXPERTS, AT_ONCE):
        gate, up = (part(both, begin, slice(one, one + NEURONS)) for one in (0, NEURONS))
        some = experts.Experts(gate=gate, up=up, down=part(down, begin, slice(None)), limit=LIMIT)
        packs.append(tiles.fragments(some))
    return Layer(
        pack=torch.cat(packs), both=both, down=down, both_bf16=decoded(both), down_bf16=decoded(down)
    )


def random_matrix(count: int, out: int, width: int) -> experts.Matrix:
    """Return MXFP4 weights, every code as likely."""
    return experts.Matrix(
        codes=torch.randint(0, 256, (count, out, width // 2), dtype=torch.uint8, device="cuda"),
        scales=torch.randint(115, 120, (count, out, width // 32), dtype=torch.uint8, device="cuda"),
    )


def part(matrix: experts.Matrix, begin: int, rows: slice) -> experts.Matrix:
    """Return some experts' rows."""
    assert matrix.scales is not None  # noqa: S101 - MXFP4 here
    codes, scales = (one[begin : begin + AT_ONCE, rows].contiguous() for one in (matrix.codes, matrix.scales))
    return experts.Matrix(codes=codes, scales=scales)


@functools.cache
def pairs() -> torch.Tensor:
    """Return both numbers of every byte, bf16 [256, 2], on the device: made once, as a graph that is captured takes nothing from the host."""
    values = torch.tensor(
        [*mxfp4.VALUES, *(-one for one in mxfp4.VALUES)], dtype=torch.bfloat16, device="cuda"
    )
    byte = torch.arange(256, device="cuda")
    return torch.stack((values[byte & 15], values[byte >> 4]), dim=-1)


def decoded(matrix: experts.Matrix, into: torch.Tensor | None = None) -> torch.Tensor:
    """Return bf16 [experts, out, in]: a table of both codes of a byte, and an exact product with the scale."""
    assert matrix.scales is not None  # noqa: S101 - MXFP4 here
    count, out, width = matrix.shape
    answer = into if into is not None else torch.empty(count, out, width, dtype=torch.bfloat16, device="cuda")
    for begin in range(0, count, AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        numbers = pairs()[matrix.codes[some].int()].view(-1, out, width // 32, 32)
        factor = torch.exp2(matrix.scales[some].float() - 127).bfloat16()
        torch.mul(numbers, factor[..., None], out=answer[some].view(-1, out, width // 32, 32))
    return answer


def grouped(  # noqa: PLR0913, PLR0917 - the operands of one layer
    both: torch.Tensor,
    down: torch.Tensor,
    x: torch.Tensor,
    picks: torch.Tensor,
    weights: torch.Tensor,
    out: torch.Tensor,
) -> torch.Tensor:
    """The same layer by torch._grouped_mm in bf16."""
    ranked, order = picks.flatten().sort(stable=True)
    ends = torch.searchsorted(
        ranked, torch.arange(EXPERTS, dtype=torch.int32, device=x.device), right=True, out_int32=True
    )
    gate, up = torch._grouped_mm(x[order // TOP_K], both.mT, offs=ends).chunk(2, dim=-1)  # noqa: SLF001 - its only name in torch 2.11
    h = torch.nn.functional.silu(gate.clamp(max=LIMIT)) * up.clamp(-LIMIT, LIMIT)
    parts = torch._grouped_mm(h * weights.flatten()[order, None].bfloat16(), down.mT, offs=ends)  # noqa: SLF001 - likewise
    sorted_back = torch.empty_like(parts)
    sorted_back[order] = parts
    return torch.sum(sorted_back.view(len(x), TOP_K, HIDDEN), dim=1, dtype=torch.float32, out=out)


class Bench:
    """All ways at one number of rows: a CUDA graph of all layers, fed with fresh routing before each replay."""

    def __init__(self, rows: int, layers: list[Layer], ceiling: float, options: argparse.Namespace) -> None:
        self.rows, self.layers, self.ceiling, self.replays = rows, layers, ceiling, options.replays
        self.pool = routing(rows, LAYERS * (options.replays + 3), options.skew)
        self.picks, self.weights = (one[:LAYERS].clone() for one in self.pool)
        self.x = torch.randn(rows, HIDDEN, device="cuda").bfloat16()
        self.out = torch.empty(LAYERS, rows, HIDDEN, device="cuda")
        self.shape = native.Shape(
            rows=rows, top_k=TOP_K, experts=EXPERTS, tiles=TILES, hidden=HIDDEN, limit=LIMIT
        )
        self.kernel = Prefill(self.shape, Layout.FRAGMENTS, torch.device("cuda"))
        self.scratch = [torch.empty_like(one) for one in (layers[0].both_bf16, layers[0].down_bf16)]

    def ours(self) -> None:
        """Read by the kernels."""
        for layer, picks, weights, out in zip(self.layers, self.picks, self.weights, self.out, strict=True):
            self.kernel(layer.pack, Rows(x=self.x, picks=picks, weights=weights), out)

    def beside(self) -> None:
        """Read in bf16, decoded beforehand."""
        for layer, picks, weights, out in zip(self.layers, self.picks, self.weights, self.out, strict=True):
            grouped(layer.both_bf16, layer.down_bf16, self.x, picks, weights, out)

    def after_decoding(self) -> None:
        """Read in bf16, decoded for this step."""
        both, down = self.scratch
        for layer, picks, weights, out in zip(self.layers, self.picks, self.weights, self.out, strict=True):
            grouped(decoded(layer.both, both), decoded(layer.down, down), self.x, picks, weights, out)

    def off(self) -> float:
        """Return the relative distance of the outputs."""
        self.ours()
        one = self.out.clone()
        self.beside()
        return float((one - self.out).norm() / self.out.norm())

    def cases(self) -> list[Case]:
        """Time ours, both rivals, and ours again."""
        ways = (
            ("ours", self.ours),
            ("bf16", self.beside),
            ("bf16+", self.after_decoding),
            ("ours", self.ours),
        )
        return [self.case(name, run) for name, run in ways]

    def launches(self) -> list[Case]:
        """Time ours in other launches."""
        found = []
        for block in BLOCKS:
            for warps, stages, registers in (
                (4, 2, 168),
                (4, 3, 168),
                (4, 4, 168),
                (4, 3, 255),
                (4, 4, 255),
                (8, 3, 255),
            ):
                launch = Launch(block=block, warps=warps, stages=stages, registers=registers)
                self.kernel = Prefill(self.shape, Layout.FRAGMENTS, torch.device("cuda"), launch)
                found.append(
                    self.case(
                        f"block {block}, {warps} warps, {stages} stages, {registers} registers", self.ours
                    )
                )
        return found

    def case(self, name: str, run: Callable[[], None]) -> Case:
        """Time one way."""
        graph, picked = captured(run), []

        def fresh() -> None:
            chosen = torch.randperm(len(self.pool[0]), device="cuda")[:LAYERS]
            self.picks.copy_(self.pool[0][chosen])
            self.weights.copy_(self.pool[1][chosen])
            picked.append(statistics.mean(len(one.unique()) for one in self.picks))

        times, clock, watts = timed(graph, fresh, self.replays)
        us = statistics.median(times) / LAYERS
        one = Case(
            rows=self.rows, name=name, us=us, each_us=tuple(one / LAYERS for one in times),
            tflops=6 * self.rows * TOP_K * NEURONS * HIDDEN / us / 1e6,
            floor_us=statistics.mean(picked[3:]) * TILES * tiles.bytes_of(HIDDEN) / self.ceiling / 1e3,
            clock_mhz=clock, watts=watts,
        )  # fmt: skip
        print(one.line, flush=True)
        return one


if __name__ == "__main__":
    sys.exit(main())
