"""What does choosing depths cost beside reading them? A layer as it is served on one GPU, against the kernel that plans for itself.

Usage: python benchmarks/budget_step.py [--rows 1,4,16,64] [--replays 15] [--layers 8] [-o FILE.json]

Shape, weights, routing and clock as in budget_kernel.py: a CUDA graph of 40 layers over 8 different ones. Side by side, at the same price:
`kernel` plans inside the kernel (one rank's slice, no accounts); `served` chooses the depths of four ranks with accounts, cost and counts in
one launch before it, as serving does; `in torch` does the same by the definition, launch by launch. The routing, the depths and so the bytes
are the same for all three, which is checked. Exit code 1 where depths differ, 2 without a CUDA device.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "vllm_plugin"))

import numpy as np  # noqa: E402 - found beside the plug-in
import torch  # noqa: E402

from budget_kernel import (  # noqa: E402
    LAYERS,
    POOL,
    SHAPE,
    Weights,
    captured,
    loads_of,
    made,
    price_of,
    routing,
    timed,
)
from sparkctl_vllm import native  # noqa: E402
from sparkctl_vllm.plan_file import Meaning, Plan  # noqa: E402
from sparkctl_vllm.serving.binding import Bound  # noqa: E402
from sparkctl_vllm.serving.budget import Budget  # noqa: E402
from sparkctl_vllm.serving.figures import Figures  # noqa: E402
from sparkctl_vllm.serving.roster import Work  # noqa: E402
from sparkctl_vllm.step import Priced, Rows  # noqa: E402

RANKS = 4
SMALLER = 2.0**-7
"""Importances in nats that a plan may hold: by a power of two, so that every comparison with the price comes out as before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Microseconds of a layer in the median, and of each replay."""

    rows: int
    share: float
    name: str
    us: float
    each_us: tuple[float, ...]


def main() -> int:
    """Measure, print, and return 0 where all ways read the same."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--rows", type=lambda text: [int(one) for one in text.split(",")], default=[1, 4, 16, 64]
    )
    parser.add_argument("--replays", type=int, default=15)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("-o", dest="path", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device: this measures kernels and needs one", file=sys.stderr)
        return 2
    torch.manual_seed(1)
    weights = made(options.layers)
    cases, same = [], True
    for rows in options.rows:
        for share in (1.0, 0.5):
            bench = Bench(rows, weights, share)
            cases += bench.cases(options.replays)
            same = same and bench.agree()
    told = {
        "schema": "sparkctl-budget-step/1",
        "device": torch.cuda.get_device_name(),
        "shape": SHAPE,
        "ranks": RANKS,
        "same_depths": same,
        "cases": [asdict(one) for one in cases],
    }
    if options.path:
        options.path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(table(cases))
    print("depths of all three ways:", "the same" if same else "DIFFERENT")
    return 0 if same else 1


def table(cases: list[Case]) -> str:
    """Return the cases as a table, one row a step size and share."""
    lines = ["| rows | read | kernel, us | served | in torch |", "|---|---|---|---|---|"]
    for rows, share in dict.fromkeys((one.rows, one.share) for one in cases):
        mine = {one.name: one.us for one in cases if (one.rows, one.share) == (rows, share)}
        told = " | ".join(f"{mine[name]:.1f}" for name in ("kernel", "served", "in torch"))
        lines.append(f"| {rows} | {share:.0%} | {told} |")
    return "\n".join(lines)


class Bench:
    """One step size and share of the bytes; fresh routing before every replay."""

    def __init__(self, rows: int, weights: Weights, share: float) -> None:
        self.rows, self.share, self.weights = rows, share, weights
        self.pool = routing(rows, POOL, 0.0)
        self.picks, self.routed = (one[:LAYERS].clone() for one in self.pool)
        train = loads_of(*routing(rows, POOL, 0.0))
        price = 0.0 if share == 1 else price_of(train, weights.importances[0], share)
        self.price = torch.tensor([price], device="cuda")
        self.x = torch.randn(LAYERS, rows, SHAPE["hidden"], device="cuda").bfloat16()
        self.out = torch.empty(LAYERS, rows, SHAPE["hidden"], device="cuda")
        self.kernel = native.Kernel(native.Shape(rows=rows, **SHAPE), torch.device("cuda"))
        self.budget = announced(weights, rows, price)

    def cases(self, replays: int) -> list[Case]:
        """Time the three ways."""
        ways: dict[str, Callable[[int], None]] = {
            "kernel": self._planned,
            "served": self._served,
            "in torch": self._defined,
        }
        answer = []
        for name, way in ways.items():
            times, _, _ = timed(captured(lambda way=way: self._all(way)), self._fresh, replays)
            each = tuple(one / LAYERS for one in times)
            answer.append(
                Case(rows=self.rows, share=self.share, name=name, us=statistics.median(each), each_us=each)
            )
        return answer

    def agree(self) -> bool:
        """Whether the three ways read the same of one layer."""
        self._planned(0)
        planned = self.kernel.workspace.told[1].clone()
        return all(torch.equal(planned, self._depths(0, fused=one)) for one in (True, False))

    def _all(self, way: Callable[[int], None]) -> None:
        for layer in range(LAYERS):
            way(layer)

    def _fresh(self) -> None:
        chosen = torch.randperm(POOL, device="cuda")[:LAYERS]
        self.picks.copy_(self.pool[0][chosen])
        self.routed.copy_(self.pool[1][chosen])

    def _planned(self, layer: int) -> None:
        one = layer % len(self.weights.packs)
        how = Priced(importance=self.weights.importances[one], price=self.price)
        self.kernel(
            self.weights.packs[one], how, self._rows(layer), self.budget.running.rows, self.out[layer]
        )

    def _rows(self, layer: int) -> Rows:
        return Rows(x=self.x[layer], picks=self.picks[layer], weights=self.routed[layer])

    def _depths(self, layer: int, *, fused: bool) -> torch.Tensor:
        kept = self.budget.fused
        self.budget.fused = kept if fused else None
        depths = self.budget.depths(
            layer % len(self.weights.packs), self.picks[layer], self.routed[layer]
        ).int()
        self.budget.fused = kept
        return depths

    def _served(self, layer: int, *, fused: bool = True) -> None:
        depths = self._depths(layer, fused=fused)
        pack = self.weights.packs[layer % len(self.weights.packs)]
        self.kernel.read_to(pack, depths, self._rows(layer), self.budget.running.rows, self.out[layer])

    def _defined(self, layer: int) -> None:
        self._served(layer, fused=False)


def announced(weights: Weights, rows: int, price: float) -> Budget:
    """Return the budget of the first of four even ranks, each with the same importances, and a step of so many rows announced."""
    tables = {
        f"D.L{layer}": (one.T * SMALLER).repeat(1, RANKS).cpu().numpy()
        for layer, one in enumerate(weights.importances)
    }
    layers, width = len(weights.importances), int(SHAPE["tiles"]) * 64
    tables["price"] = np.full((layers, rows + 1), price * SMALLER, np.float32)
    meaning = Meaning(
        model="random", checkpoint={}, experts=int(SHAPE["experts"]), layers=layers, widths=(width,) * RANKS, tile=64, format="mxfp4",
        applied=True, eps=1.0, h=1e6, d_max=1.0, floor_tiles=1, min_tiles=1, corpus="", corpus_tokens=0, predicted={}, commit="",
    )  # fmt: skip
    bound = Bound(plan=Plan(meaning=meaning, tables=tables), rank=0, places={})
    one = Budget(
        bound, "water-filled", rows, Figures.made(None, RANKS, rows), torch.device("cuda", torch.cuda.current_device())
    )  # fmt: skip
    names = [str(row) for row in range(rows)]
    one.turnover((), dict.fromkeys(names))
    one.begin([Work(request=name, rows=1, decoding=True) for name in names])
    return one


if __name__ == "__main__":
    sys.exit(main())
