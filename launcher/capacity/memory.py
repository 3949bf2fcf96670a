"""Memory: what each rank of a recipe is predicted to hold, line by line, which rank binds, and what would fit. Pure.

Weights and cache are arithmetic; what the engine takes beside them is a span of what boots reported, and says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from launcher.capacity.preset import Hardware, Reported, Span
from launcher.capacity.weights import Share, Totals
from sparkctl.units import GIB

WORKSPACE_ROWS = 40
"""Rows of the indexer's workspace, each as long as the longest request and 132 bytes a token: vllm/v1/attention/backends/mla/indexer.py
of 0.33.0. At 1,048,576 tokens that is the 5.2 GiB of tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark; a fork that keeps six rows saved
4.38 GiB (NestuFNG/DeepSeek-V4.1-Flash-DGX-Spark-Ring), which is 34 rows."""

INDEX_BYTES = 132
ENGRAM_ROW_BYTES = 264
ENGRAM_ROWS = 24
"""Rows that one token reads of one table: 8 heads for n-grams of 2, 3 and 4 (engram_n_heads and engram_max_ngram_size)."""
ENGRAM_TABLES = 2
RESIDENT_ROW_BYTES = {"fp8": ENGRAM_ROW_BYTES, "fp4": 136}
"""Of a row in memory: 256 values and 8 scales. What packs and serves rows is the plug-in, vllm_plugin/sparkctl_vllm/engram/row_format.py."""
LINE_ROWS, LINE_BYTES = 480, 64
"""A line says of so many rows whether they are resident, and where: vllm_plugin/sparkctl_vllm/engram/membership.py."""

PIN_STEP_GIB = 0.25
_NONE = Span(low=0.0, high=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One use of memory: GiB on each rank by rank, from where the figure is, and whether vLLM counts it in its utilisation."""

    name: str
    gib: tuple[Span, ...]
    origin: str
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a recipe sets of memory: GiB of the cache on each rank (None: vLLM sizes it), the longest request, tokens of a batch."""

    utilisation: float
    cache_gib: float | None
    length: int
    batched: int
    engram: Literal["disk", "resident", "none"]
    small_buffers: bool
    indexed: bool
    guard_gib: float
    resident_rows: int = 0
    """Rows of each Engram table, over all ranks, that stay in memory although the tables are on disk."""
    resident_kind: str = "fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Every rank's memory; `cache` is the place of the KV cache among the lines."""

    total_gib: float
    setup: Setup
    lines: tuple[Line, ...]
    cache: int
    tables_gib: float = 0.0
    """The whole of Engram's tables, wherever they lie."""

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.lines[0].gib)

    def used(self, rank: int) -> Span:
        """Return what a rank holds in all.

        Where vLLM sizes the cache, what the rest does not take is the cache's: the fullest rank holds its whole budget.
        """
        if self.setup.cache_gib is not None:
            return _sum(self.lines, rank)
        rest, outside = (
            self._counted_rest(rank),
            _sum([line for line in self.lines if not line.counted], rank),
        )
        most = self._counted_rest(self.binding)
        budget = self.total_gib * self.setup.utilisation - (most.high - rest.high)
        return Span(low=max(budget, rest.low) + outside.low, high=max(budget, rest.high) + outside.high)

    def left(self, rank: int) -> Span:
        """Return what is left of its memory."""
        used = self.used(rank)
        return Span(low=self.total_gib - used.high, high=self.total_gib - used.low)

    @property
    def binding(self) -> int:
        """The rank that holds most beside its cache; of several the first."""
        rest = self._without_cache()
        return max(range(self.ranks), key=lambda rank: (_sum(rest, rank).low, -rank))

    @property
    def fits(self) -> Literal["yes", "perhaps", "no"]:
        """Whether every rank stays above the guard's floor: at the high end of every span, at the low end only, or not even there."""
        left, floor = self.left(self.binding), self.setup.guard_gib
        return "yes" if left.low >= floor else "perhaps" if left.high >= floor else "no"

    @property
    def safe_pin_gib(self) -> float:
        """Largest cache, the same on every rank, that leaves the guard's floor at the high end of every span; 0 or less: none does."""
        return self._pin(_sum(self._without_cache(), self.binding).high)

    @property
    def hopeful_pin_gib(self) -> float:
        """The same at the low end: above it nothing can fit."""
        return self._pin(_sum(self._without_cache(), self.binding).low)

    @property
    def safe_utilisation(self) -> float:
        """Largest share of memory that may be the engine's, in steps of 0.01; what it does not count and the guard's floor stay free."""
        outside = sum(line.gib[self.binding].high for line in self.lines if not line.counted)
        return math.floor((1 - (outside + self.setup.guard_gib) / self.total_gib) * 100) / 100

    def needed_gib(self, rank: int) -> float:
        """Return the least that the engine must find available on a rank: the low end of all that it counts itself."""
        return _sum([line for line in self.lines if line.counted], rank).low

    def _counted_rest(self, rank: int) -> Span:
        return _sum([line for line in self._without_cache() if line.counted], rank)

    def _pin(self, rest: float) -> float:
        return math.floor((self.total_gib - self.setup.guard_gib - rest) / PIN_STEP_GIB) * PIN_STEP_GIB

    def _without_cache(self) -> tuple[Line, ...]:
        return (*self.lines[: self.cache], *self.lines[self.cache + 1 :])


def table(
    hardware: Hardware, reported: Reported | None, weights: Sequence[Line], tables_gib: float, setup: Setup
) -> Table:
    """Return the memory of every rank; `weights` are its first lines, `tables_gib` the whole of Engram's tables."""
    ranks = len(weights[0].gib)
    engine = [*_engine(reported, setup, ranks), *_engram(setup, tables_gib, ranks)]
    outside = _outside(hardware, setup, ranks)
    counted = [*weights, *engine]
    cache = _cache(counted, hardware.memory_gib, setup, ranks)
    lines = (*weights, cache, *engine, *outside)
    return Table(
        total_gib=hardware.memory_gib, setup=setup, lines=lines, cache=len(weights), tables_gib=tables_gib
    )


def weight_lines(
    totals: Totals, experts: Sequence[Share], drafter: Sequence[Share], added: int, added_whole: int
) -> tuple[Line, ...]:
    """Return the lines of the weights: routed experts and their padding apart, the drafter's, the rest, what loading adds."""
    ranks = len(experts)
    rest = totals.cut / ranks + totals.whole
    lines = (
        Line(name="routed experts", gib=_each([one.size for one in experts]), origin="tensors"),
        Line(name="their padding", gib=_each([one.padding for one in experts]), origin="kernels"),
        Line(
            name="drafter's experts", gib=_each([one.size + one.padding for one in drafter]), origin="tensors"
        ),
        Line(name="other weights", gib=_each([rest] * ranks), origin="tensors"),
        Line(name="added in loading", gib=_each([added / ranks + added_whole] * ranks), origin="inferred"),
    )
    return tuple(line for line in lines if any(span.high for span in line.gib))


def weights_gib(lines: Sequence[Line]) -> tuple[float, ...]:
    """Return each rank's weights in GiB: what vLLM prints as `Model loading took`."""
    return tuple(_sum(lines, rank).high for rank in range(len(lines[0].gib)))


def _cache(counted: Sequence[Line], total: float, setup: Setup, ranks: int) -> Line:
    if setup.cache_gib is not None:
        pinned = Span(low=setup.cache_gib, high=setup.cache_gib)
        return Line(name="KV cache", gib=(pinned,) * ranks, origin="the recipe")
    budget = total * setup.utilisation
    worst = max((_sum(counted, rank) for rank in range(ranks)), key=lambda span: span.high)
    offered = Span(low=max(0.0, budget - worst.high), high=max(0.0, budget - worst.low))
    return Line(name="KV cache", gib=(offered,) * ranks, origin="left over")


def _engine(reported: Reported | None, setup: Setup, ranks: int) -> list[Line]:
    found = []
    if setup.indexed:
        size = WORKSPACE_ROWS * setup.length * INDEX_BYTES
        found.append(Line(name="index workspace", gib=_each([size] * ranks), origin="arithmetic"))
    if reported:
        graphs, rest = reported.graphs_gib, reported.rest_gib
        found.append(Line(name="CUDA graphs", gib=(graphs,) * ranks, origin="reported"))
        found.append(Line(name="activations", gib=(rest,) * ranks, origin="inferred"))
    return found


def resident_bytes(rows: int, kind: str, tables_gib: float, ranks: int) -> float:
    """Return what so many rows of each table take on a rank, and the lines that say which they are; hot rows spread evenly over ranks."""
    table_rows = tables_gib * GIB / ENGRAM_TABLES / ENGRAM_ROW_BYTES
    lines = ENGRAM_TABLES * table_rows / ranks / LINE_ROWS * LINE_BYTES
    return ENGRAM_TABLES * rows / ranks * RESIDENT_ROW_BYTES[kind] + lines if rows else 0.0


def _engram(setup: Setup, tables_gib: float, ranks: int) -> list[Line]:
    match setup.engram:
        case "disk":
            size = setup.batched * ENGRAM_TABLES * ENGRAM_ROWS * ENGRAM_ROW_BYTES / ranks
            staging = Line(name="Engram staging", gib=_each([size] * ranks), origin="arithmetic")
            if not setup.resident_rows:
                return [staging]
            kept = resident_bytes(setup.resident_rows, setup.resident_kind, tables_gib, ranks)
            return [
                staging,
                Line(name="resident Engram rows", gib=_each([kept] * ranks), origin="arithmetic"),
            ]
        case "resident":
            held = Span(low=tables_gib / ranks, high=tables_gib / ranks)
            return [Line(name="Engram rows", gib=(held,) * ranks, origin="tensors")]
        case "none":
            return []


def _outside(hardware: Hardware, setup: Setup, ranks: int) -> list[Line]:
    found = []
    buffers = hardware.nccl_small_gib if setup.small_buffers else hardware.nccl_gib
    if ranks > 1 and buffers is not None:
        span = Span(low=buffers, high=buffers)
        found.append(Line(name="NCCL's buffers", gib=(span,) * ranks, origin="reported", counted=False))
    if hardware.outside_gib:
        found.append(
            Line(
                name="system",
                gib=(hardware.outside_gib,) * ranks,
                origin="inferred",
                counted=False,
            )
        )
    return found


def _each(sizes: Sequence[float]) -> tuple[Span, ...]:
    return tuple(Span(low=size / GIB, high=size / GIB) for size in sizes)


def _sum(lines: Sequence[Line], rank: int) -> Span:
    total = _NONE
    for line in lines:
        span = line.gib[rank]
        total = replace(total, low=total.low + span.low, high=total.high + span.high)
    return total
