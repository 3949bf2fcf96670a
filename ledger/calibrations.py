"""Calibration rows: what boots of the base alone showed of a line's noise, and how long a boot of it takes.

Values in, values out; `rows` are those that count, see `ledger.retractions.live`.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import cast

from ledger.entry import Body, Row
from ledger.fields import each, get, metric, text
from tuner.metrics import Metric
from tuner.noise import Noise, Passes, calibrated
from tuner.workload import Quantity

LAST = 20
"""Boots that a line's pace is taken from, the last ones."""


def write(
    *, boot: str, grounds: Mapping[str, object], passes: Passes, voids: Sequence[str], simulated: bool
) -> Body:
    """Write one boot of the base with the metrics of each pass; a pass that was void makes it say nothing."""
    return cast(
        "Body",
        {
            "simulated": simulated,
            "boot": boot,
            "grounds": dict(grounds),
            "voids": list(voids),
            "passes": [
                [{"name": one.name, "value": one.value, "unit": one.unit, "n": one.n} for one in taken]
                for taken in passes
            ],
        },
    )


def noise(
    rows: Sequence[Row],
    line: str,
    grounds: Mapping[str, object],
    metrics: Mapping[str, Quantity],
    *,
    simulated: bool,
) -> Noise:
    """Return the noise of a line: of its calibration boots on the same grounds (recipe, workload ...), or that of others."""
    found = [
        _passes(row.body)
        for row in rows
        if row.kind == "calibration"
        and (row.line, row.body.get("simulated")) == (line, simulated)
        and row.body.get("grounds") == dict(grounds)
        and "passes" in row.body
        and not row.body.get("voids")
    ]
    return calibrated(found, metrics)


def minutes_a_boot(rows: Sequence[Row], line: str, *, simulated: bool) -> float | None:
    """Return the median time from the start of a boot to the end of its bench; None where the ledger has none."""
    own = [row for row in rows if (row.line, row.body.get("simulated")) == (line, simulated)]
    boots = [
        _seconds(row.body)
        for row in own
        if row.kind == "boot" and row.body.get("ok") and not row.body.get("void")
    ]
    benches = [_seconds(row.body) for row in own if row.kind == "bench" and "seconds" in row.body]
    if not boots or not benches:
        return None
    return (median(boots[-LAST:]) + median(benches[-LAST:])) / 60


def check(body: Body) -> None:
    """Read a calibration row for its faults; one without passes is from before there were any, and says nothing.

    Raises:
        RowFault: something is missing or of another type.

    """
    if "passes" in body:
        get(body, "boot", text)
        _passes(body)


def _passes(body: Body) -> tuple[tuple[Metric, ...], ...]:
    return get(body, "passes", lambda found: each(found, lambda one: each(one, metric)))


def _seconds(body: Body) -> float:
    found = body.get("seconds")
    return float(found) if isinstance(found, int | float) else 0.0
