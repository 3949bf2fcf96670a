"""Flat: the ledger as one table, a row for each figure of each bench, ours and reported, for whatever reads CSV or Parquet. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger import bodies
from ledger.entry import Row
from ledger.fields import get, text
from ledger.reported import imported
from ledger.retractions import live


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """One figure. `label` is simulated, reported, or empty; a figure with a `void` does not count, `n` is the requests behind it.

    `row` is the ledger's; `boot`, `climb`, `recipe` and `workload` are empty where there is none (all of a reported figure).
    """

    row: int
    at: str
    line: str
    label: str
    boot: str
    climb: str
    stack: str
    metric: str
    unit: str
    value: float
    n: int
    void: str
    workload: str
    source: str


def flat(rows: Sequence[Row]) -> tuple[Flat, ...]:
    """Return every figure of the rows that count."""
    return tuple(
        one
        for row in live(rows)
        for one in (_bench(row) if row.kind == "bench" else _import(row) if row.kind == "import" else ())
    )


def _bench(row: Row) -> Iterator[Flat]:
    bench = bodies.bench(row.body)
    for one in bench.metrics:
        yield Flat(
            row=row.n,
            at=row.at,
            line=row.line,
            label="simulated" if bodies.is_simulated(row.body) else "",
            boot=bench.boot,
            climb=bench.climb or "",
            stack="+".join(bench.on) or "base",
            metric=one.name,
            unit=one.unit,
            value=one.value,
            n=one.n,
            void="; ".join(bench.voids),
            workload=get(row.body, "workload_digest", text) if "workload_digest" in row.body else "",
            source="",
        )


def _import(row: Row) -> Iterator[Flat]:
    file = imported(row.body)
    for one in file.rows:
        for metric, value in one.figures:
            yield Flat(
                row=row.n,
                at=row.at,
                line=one.line,
                label="reported",
                boot="",
                climb="",
                stack=one.lever,
                metric=metric,
                unit="s" if metric.endswith("_s") and "tok_s" not in metric else "tok/s",
                value=value,
                n=1,
                void="",
                workload="",
                source=f"{one.row}: {file.source}",
            )
