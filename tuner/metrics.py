"""From the requests of a bench to its figures: by metric, by cell, by category. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import assert_never

from tuner import bracket, voids
from tuner.rates import aggregate_rate, decode_rate, prefill_rate
from tuner.request import Bench, Request
from tuner.workload import Cell, Quantity, asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of one bench; `n` is the number of requests (or of rounds, for an aggregate) it is the mean of."""

    name: str
    value: float
    unit: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One kind of question under one load; rates in tok/s.

    `aggregate` is None where the streams of a round had questions of several kinds. Kinds differ threefold on one engine, since
    drafts are accepted more often the easier a text is guessed: only like is compared with like.
    """

    cell: str
    category: str
    per_stream: float
    aggregate: float | None
    ttft_s: float
    n: int


def measure(bench: Bench) -> tuple[Metric, ...]:
    """Return the metrics of every cell whose requests are all sound; a cell that is not gives none."""
    return tuple(
        metric
        for cell in bench.workload.cells
        if not any(True for _ in voids.of_cell(bench, cell))
        for metric in _metrics(cell, bench.of(cell.name))
    )


def by_category(bench: Bench) -> tuple[Category, ...]:
    """Return the rates of each sound decode cell by the category of the question, in the workload's order."""
    return tuple(
        row
        for cell in bench.workload.cells
        if cell.kind == "decode" and not any(True for _ in voids.of_cell(bench, cell))
        for row in _categories(bench, cell)
    )


def acceptance(bench: Bench, cell: Cell) -> float | None:
    """Return the tokens that a step yielded on average over a cell, by the server's counters; None where it does not tell."""
    grown = bracket.grown(bench.brackets, bench.workload.cells.index(cell))
    return grown.acceptance if grown else None


def _categories(bench: Bench, cell: Cell) -> Iterator[Category]:
    prompts, requests = asked(bench.workload), bench.of(cell.name)
    for name in dict.fromkeys(prompts[one].category for one in cell.prompts):
        own = tuple(one for one in requests if prompts[one.prompt].category == name)
        if own:
            yield Category(
                cell=cell.name,
                category=name,
                per_stream=fmean(map(decode_rate, own)),
                aggregate=fmean(map(aggregate_rate, _by_round(own))) if cell.deal == "rounds" else None,
                ttft_s=fmean(one.ttft_s for one in own),
                n=len(own),
            )


def _metrics(cell: Cell, requests: tuple[Request, ...]) -> Iterator[Metric]:
    for name, quantity in cell.metrics.items():
        values, unit = _values(quantity, requests)
        yield Metric(name=name, value=fmean(values), unit=unit, n=len(values))


def _values(quantity: Quantity, requests: tuple[Request, ...]) -> tuple[list[float], str]:
    match quantity:
        case "per_stream":
            return [decode_rate(one) for one in requests], "tok/s"
        case "prefill":
            return [prefill_rate(one) for one in requests], "tok/s"
        case "ttft":
            return [one.ttft_s for one in requests], "s"
        case "aggregate":
            return [aggregate_rate(one) for one in _by_round(requests)], "tok/s"
        case _:
            assert_never(quantity)


def _by_round(requests: tuple[Request, ...]) -> tuple[tuple[Request, ...], ...]:
    numbers = dict.fromkeys(one.round for one in requests)
    return tuple(tuple(one for one in requests if one.round == number) for number in numbers)
