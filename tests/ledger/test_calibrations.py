"""Calibration rows: only boots on the same grounds count, and the pace of a line is that of its last boots."""

from collections.abc import Mapping

import pytest

from ledger import calibrations
from ledger.entry import Body, Row
from ledger.fields import RowFault
from tuner.metrics import Metric
from tuner.noise import Passes, reported
from tuner.workload import Quantity

METRICS: Mapping[str, Quantity] = {"c1": "per_stream"}
GROUNDS = {"recipe_digest": "r", "workload_digest": "w", "scenario": None, "pace": None}


def row(kind: str, body: Body, line: str = "A") -> Row:
    """A row of that kind."""
    return Row(n=1, at="2026-10-03T00:00:00Z", kind=kind, line=line, body=body, prev="", hash="")


def passes(*values: float) -> Passes:
    """A pass for each value."""
    return [(Metric(name="c1", value=value, unit="tok/s", n=4),) for value in values]


def boot(*values: float, voids: tuple[str, ...] = (), grounds: Mapping[str, object] = GROUNDS) -> Row:
    """A calibration boot."""
    return row(
        "calibration",
        calibrations.write(boot="b", grounds=grounds, passes=passes(*values), voids=voids, simulated=False),
    )


def test_only_sound_boots_on_the_same_grounds_count() -> None:
    """A void one, another recipe's, another line's and a practice line's say nothing of this line."""
    own = [boot(50, 51), boot(52, 53), boot(49, 50)]
    strange = [
        boot(90, 91, voids=("loop",)),
        boot(90, 91, grounds={**GROUNDS, "recipe_digest": "other"}),
        row("calibration", {**boot(90).body, "simulated": True}),
        row("calibration", boot(90).body, line="B"),
        row("calibration", {"simulated": False, "between": 0.02}),
    ]
    found = calibrations.noise([*own, *strange], "A", GROUNDS, METRICS, simulated=False)
    assert found.boots == 3
    assert 0.02 < found.scatter["c1"] < 0.04
    assert calibrations.noise(strange, "A", GROUNDS, METRICS, simulated=False) == reported(METRICS)


def test_the_pace_is_that_of_boots_that_came_up() -> None:
    """Boot and bench together, by the median; nothing where there is none."""
    rows = [
        *(row("boot", {"simulated": False, "ok": True, "seconds": seconds}) for seconds in (600, 640, 9_000)),
        row("boot", {"simulated": False, "ok": False, "seconds": 5}),
        *(row("bench", {"simulated": False, "seconds": 80.0}) for _ in range(3)),
    ]
    assert calibrations.minutes_a_boot(rows, "A", simulated=False) == pytest.approx(12.0)
    assert calibrations.minutes_a_boot(rows, "A", simulated=True) is None
    assert calibrations.minutes_a_boot(rows[:3], "A", simulated=False) is None


def test_a_row_is_checked_where_it_has_passes() -> None:
    """A metric without its value is named by its place."""
    with pytest.raises(RowFault, match=r"passes: \[0\]: \[0\]: value"):
        calibrations.check({"boot": "b", "passes": [[{"name": "c1"}]]})
