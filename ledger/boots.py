"""Boots as they were measured: each with its figures and with what a comparison has to know of it. Pure.

A later bench of the same boot replaces an earlier one, because the unit is a boot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger import bodies
from ledger.entry import Body, Row
from ledger.fields import get, mapping, number_or_null, text
from ledger.retractions import live
from tuner.metrics import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One boot with its bench.

    `n` is the number of its boot row, `at` when it was up, `age_s` how long the engine had been up when the bench began and
    `cached` the prompt tokens that came from its cache, each None where nothing tells. With `voids` the figures do not count.
    """

    boot: str
    n: int
    line: str
    simulated: bool
    climb: str | None
    on: tuple[str, ...]
    at: str
    recipe: str
    workload: str
    age_s: float | None
    cached: float | None
    voids: tuple[str, ...]
    metrics: tuple[Metric, ...]

    @property
    def stack(self) -> str:
        """The levers that were on, as a name."""
        return "+".join(self.on) or "base"


def measured(rows: Sequence[Row]) -> tuple[Measured, ...]:
    """Return every boot that was measured, in the order in which their benches were written; retracted rows are left out."""
    up: dict[str, Row] = {}
    found: dict[str, Measured] = {}
    for row in live(rows):
        if row.kind == "boot" and bodies.boot(row.body).ok:
            up[bodies.boot(row.body).boot] = row
        elif row.kind == "bench" and (bench := bodies.bench(row.body)).boot in up:
            found.pop(bench.boot, None)
            found[bench.boot] = _measured(up[bench.boot], row, bench)
    return tuple(found.values())


def _measured(boot: Row, row: Row, bench: bodies.Bench) -> Measured:
    return Measured(
        boot=bench.boot,
        n=boot.n,
        line=row.line,
        simulated=bodies.is_simulated(row.body),
        climb=bench.climb,
        on=bench.on,
        at=boot.at,
        recipe=_told(boot.body, "recipe_digest"),
        workload=_told(row.body, "workload_digest"),
        age_s=_age(boot.at, _told(row.body, "started")),
        cached=_cached(row.body),
        voids=bench.voids,
        metrics=bench.metrics,
    )


def _told(body: Body, key: str) -> str:
    return get(body, key, text) if key in body else ""


def _cached(body: Body) -> float | None:
    counters: Mapping[str, object] | None = body.get("counters") and get(body, "counters", mapping)  # type: ignore[assignment]
    return get(counters, "cached", number_or_null) if counters and "cached" in counters else None  # type: ignore[arg-type]


def _age(up: str, started: str) -> float | None:
    if not started:
        return None
    return max(0.0, (datetime.fromisoformat(started) - datetime.fromisoformat(up)).total_seconds())
