"""One rank's graph of layers: read the experts by budget, add the ranks' sums, and tell where the time goes.

A CUDA graph of 40 layers over 8 different ones with V4.1-Flash's expert shapes: plan and read of this rank's tiles, the sum to bf16, all-reduce.
Routing is fresh before every replay and equal on all ranks; a second graph has events around the read and the all-reduce of every layer.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from budget_kernel import SHAPE, captured, random_packs
from rank_layouts import Layout, importances, routing
from sparkctl_vllm import native, waterfill
from sparkctl_vllm.loads import loads
from sparkctl_vllm.price import fixed
from sparkctl_vllm.step import Priced, Rows

LAYERS, DIFFERENT, POOL, WARM = 40, 8, 24, 3
TOP_K, HIDDEN, LIMIT = int(SHAPE["top_k"]), int(SHAPE["hidden"]), SHAPE["limit"]
SKEW = 0.6
"""Sigma of the experts' lognormal popularity: the most picked of 384 is picked some six times as often as the median."""
NONE = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How every rank reads in each step of the pool: prices [steps, different layers, ranks], and each rank's least depth."""

    name: str
    prices: NDArray[np.float32]
    floors: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a way reads, known beforehand: tiles [steps, layers, ranks] and the damage that it is predicted to do [steps, layers]."""

    tiles: NDArray[np.int64]
    damage: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Microseconds a layer on this rank, medians over replays; `read_tiles` is what the kernel's own plan read, a layer on the mean."""

    whole: tuple[float, ...]
    read: float
    reduce: float
    reduces: NDArray[np.float64]
    """Of each layer's all-reduce in each replay, [replays, layers]."""
    planned_tiles: float
    read_tiles: float


class Steps:
    """A pool of steps, the same on every rank, with their loads and every rank's importances."""

    def __init__(self, layout: Layout, rows: int, seed: int) -> None:
        self.layout, self.rows = layout, rows
        self.picks, self.weights = routing(POOL, rows, layout, SKEW, seed)
        self.tables = [importances(layout, layer, seed) for layer in range(DIFFERENT)]
        self.loads = self._loads(self.picks, self.weights)
        others = routing(POOL, rows, layout, SKEW, seed + 1)
        self.before = self._loads(*others)

    def _loads(self, picks: NDArray[np.int32], weights: NDArray[np.float32]) -> list[list[NDArray[np.int32]]]:
        ranks = range(self.layout.ranks)
        return [
            [
                loads(self.layout.local(one, rank), weight, len(self.layout.range_of(rank)), self.rows)
                for rank in ranks
            ]
            for one, weight in zip(picks, weights, strict=True)
        ]

    def planned(self, way: Way) -> Planned:
        """Return what a way reads and is predicted to cost."""
        tiles = np.zeros((POOL, DIFFERENT, self.layout.ranks), dtype=np.int64)
        damage = np.zeros((POOL, DIFFERENT))
        for step, layer, rank in np.ndindex(*tiles.shape):
            one, table = self.loads[step][rank], self.tables[layer][rank]
            depths = waterfill.cleared(one, table, float(way.prices[step, layer, rank]), way.floors[rank])
            tiles[step, layer, rank] = depths.sum()
            damage[step, layer] += waterfill.lost(one, table, depths)
        return Planned(tiles=tiles, damage=damage)

    def full(self) -> Way:
        """Everything is read."""
        whole = tuple(self.layout.tiles(rank) for rank in range(self.layout.ranks))
        return self._same("full", 0.0, whole)

    def uniform(self, share: float) -> Way:
        """Every expert is read as deep."""
        ranks = range(self.layout.ranks)
        return self._same(
            f"uniform {share:g}", NONE, tuple(round(share * self.layout.tiles(rank)) for rank in ranks)
        )

    def one_price(self, share: float) -> Way:
        """One price for all ranks, fixed on other steps so that together they read this share of the tiles."""
        table = np.concatenate([self._padded(rank) for rank in range(self.layout.ranks)])
        replayed = [np.concatenate(one) for one in self.before]
        whole = sum(
            int((one[rank] > 0).sum()) * self.layout.tiles(rank)
            for one in self.before
            for rank in range(len(one))
        )
        price = fixed(replayed, table, share * whole / POOL)
        return self._same(f"one price {share:g}", price, (1,) * self.layout.ranks)

    def filled(self, share: float) -> Way:
        """Every rank reads as much as the slowest does at one price, in the same step: rank fill at the same slowest rank's bytes."""
        before = self.one_price(share)
        slowest = self.planned(before).tiles.max(axis=2)
        prices = np.zeros_like(before.prices)
        for step, layer, rank in np.ndindex(*prices.shape):
            one, table = self.loads[step][rank], self.tables[layer][rank]
            depths = waterfill.filled(one, table, int(slowest[step, layer]))
            prices[step, layer, rank] = _price_of(one, table, depths)
        return Way(name=f"rank fill {share:g}", prices=prices, floors=before.floors)

    def _padded(self, rank: int) -> NDArray[np.float32]:
        table = self.tables[0][rank]
        most = max(self.layout.tiles(one) for one in range(self.layout.ranks))
        return np.pad(table, ((0, 0), (0, most - table.shape[1])))

    def _same(self, name: str, price: float, floors: tuple[int, ...]) -> Way:
        prices = np.full((POOL, DIFFERENT, self.layout.ranks), price, dtype=np.float32)
        return Way(name=name, prices=prices, floors=floors)


class Rank:
    """One rank's graphs for one layout and step size."""

    def __init__(self, steps: Steps, rank: int, packs: Sequence[torch.Tensor]) -> None:
        layout, rows = steps.layout, steps.rows
        self.steps, self.rank, self.packs = steps, rank, packs
        self.kernel = native.Kernel(shape_of(layout, rank, rows), torch.device("cuda"))
        picks = np.stack([layout.local(one, rank) for one in steps.picks])
        self.pool = (torch.from_numpy(picks).cuda(), torch.from_numpy(steps.weights).cuda())
        self.picks = self.pool[0][:1].expand(LAYERS, -1, -1).contiguous()
        self.weights = self.pool[1][:1].expand(LAYERS, -1, -1).contiguous()
        self.tables = [torch.from_numpy(one[rank].T.copy()).cuda() for one in steps.tables]
        self.x = torch.randn(
            LAYERS, rows, HIDDEN, device="cuda", generator=torch.Generator("cuda").manual_seed(3)
        ).bfloat16()
        self.valid = torch.tensor([rows], dtype=torch.int32, device="cuda")
        self.price = torch.zeros(LAYERS, device="cuda")
        self.out = torch.empty(LAYERS, rows, HIDDEN, device="cuda")
        self.sums = torch.empty(LAYERS, rows, HIDDEN, device="cuda", dtype=torch.bfloat16)
        self.told = torch.zeros(LAYERS, len(layout.range_of(rank)), dtype=torch.int32, device="cuda")

    def timed(self, way: Way, planned: Planned, replays: int) -> Timed:
        """Replay with fresh routing, all ranks together."""
        graph, marks = self._captured(way, None), [_events() for _ in range(LAYERS)]
        marked = self._captured(way, marks)
        whole, inside, tiles, read = [], [], [], []
        for turn in range(WARM + replays):
            tiles.append(self._fresh(way, planned, turn))
            begin, end = _event(), _event()
            self._together()
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            whole.append(begin.elapsed_time(end) * 1e3 / LAYERS)
            self._together()
            marked.replay()
            torch.cuda.synchronize()
            read.append(float(self.told.sum()) / LAYERS)
            inside.append(
                [
                    (first.elapsed_time(middle) * 1e3, middle.elapsed_time(last) * 1e3)
                    for first, middle, last in marks
                ]
            )
        spans = np.array(inside[WARM:])[:, 1:]  # ranks meet in the first layer's all-reduce
        return Timed(
            whole=tuple(whole[WARM:]), read=float(np.median(spans[..., 0])), reduce=float(np.median(spans[..., 1])),
            reduces=spans[..., 1], planned_tiles=statistics.mean(tiles[WARM:]), read_tiles=statistics.mean(read[WARM:]),
        )  # fmt: skip

    def _fresh(self, way: Way, planned: Planned, turn: int) -> float:
        """Put other steps of the pool before the graph, the same on every rank; return the mean tiles a layer of this rank."""
        chosen = np.random.default_rng(turn).integers(POOL, size=LAYERS)
        layers = np.arange(LAYERS) % DIFFERENT
        index = torch.from_numpy(chosen).cuda()
        self.picks.copy_(self.pool[0][index])
        self.weights.copy_(self.pool[1][index])
        self.price.copy_(torch.from_numpy(way.prices[chosen, layers, self.rank]))
        return float(planned.tiles[chosen, layers, self.rank].mean())

    def _together(self) -> None:
        torch.cuda.synchronize()
        dist.barrier()

    def _captured(
        self, way: Way, marks: Sequence[tuple[torch.cuda.Event, ...]] | None
    ) -> torch.cuda.CUDAGraph:
        return captured(lambda: self._layers(way.floors[self.rank], marks))

    def _layers(self, floor: int, marks: Sequence[tuple[torch.cuda.Event, ...]] | None) -> None:
        for layer in range(LAYERS):
            one = layer % DIFFERENT
            if marks:
                marks[layer][0].record()
            how = Priced(importance=self.tables[one], price=self.price[layer : layer + 1], floor=floor)
            rows = Rows(x=self.x[layer], picks=self.picks[layer], weights=self.weights[layer])
            self.kernel(self.packs[one], how, rows, self.valid, self.out[layer])
            self.sums[layer].copy_(self.out[layer])
            if marks:
                marks[layer][1].record()
            dist.all_reduce(self.sums[layer])
            if marks:
                marks[layer][2].record()
                self.told[layer].copy_(self.kernel.workspace.told[1])


class Reader:
    """One rank's kernel outside a graph, asked for nothing but what it plans."""

    def __init__(self, layout: Layout, rank: int, rows: int, importance: NDArray[np.float32]) -> None:
        self.kernel = native.Kernel(shape_of(layout, rank, rows), torch.device("cuda"))
        self.table = torch.from_numpy(importance.T.copy()).cuda()
        self.pack = packs(layout, rank, 1)[0]
        self.x = torch.randn(rows, HIDDEN, device="cuda").bfloat16()
        self.out = torch.empty(rows, HIDDEN, device="cuda")

    def planned(
        self, picks: NDArray[np.int32], weights: NDArray[np.float32], valid: int, price: float, floor: int
    ) -> NDArray[np.int32]:
        """Run a step and return the depths that the kernel planned, [experts of the rank]."""
        how = Priced(importance=self.table, price=torch.tensor([price], device="cuda"), floor=floor)
        rows = Rows(x=self.x, picks=torch.from_numpy(picks).cuda(), weights=torch.from_numpy(weights).cuda())
        counted = torch.tensor([valid], dtype=torch.int32, device="cuda")
        self.kernel(self.pack, how, rows, counted, self.out)
        return self.kernel.workspace.told[1].cpu().numpy()


def shape_of(layout: Layout, rank: int, rows: int) -> native.Shape:
    """Return what a rank's kernel is built for."""
    experts, tiles = len(layout.range_of(rank)), layout.tiles(rank)
    return native.Shape(rows=rows, top_k=TOP_K, experts=experts, tiles=tiles, hidden=HIDDEN, limit=LIMIT)


def packs(layout: Layout, rank: int, count: int = DIFFERENT) -> list[torch.Tensor]:
    """Return random packs of a rank's experts."""
    return random_packs(count, len(layout.range_of(rank)), layout.tiles(rank))


def _price_of(loads: NDArray[np.int32], table: NDArray[np.float32], depths: NDArray[np.int64]) -> float:
    """Return the price at which a step reads these depths: what the best tile left out is worth; 0 where none is."""
    worth = waterfill.values(loads, table)
    left = (np.arange(table.shape[1]) >= depths[:, None]) & (loads > 0)[:, None]
    return float(worth[left].max(initial=0.0))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _events() -> tuple[torch.cuda.Event, ...]:
    return tuple(torch.cuda.Event(enable_timing=True, external=True) for _ in range(3))
