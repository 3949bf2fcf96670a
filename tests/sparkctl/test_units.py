"""Units are written for people."""

import pytest

from sparkctl.clock import PacedClock
from sparkctl.units import GIB, duration, gib, percent


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.424, "0.42 s"), (12.34, "12.3 s"), (59.96, "60.0 s"), (245, "4 min 05 s"), (3725, "1 h 02 min")],
)
def test_a_duration_reads_well(seconds: float, said: str) -> None:
    """Short times in seconds, long ones in minutes or hours."""
    assert duration(seconds) == said


def test_sizes_and_changes_read_well() -> None:
    """Bytes as GiB, ratios as signed percent."""
    assert gib(121.69 * GIB) == "121.7 GiB"
    assert (percent(1.031), percent(0.95)) == ("+3.1 %", "-5.0 %")


def test_a_paced_clock_runs_faster() -> None:
    """At pace 50 a second of the line passes in 20 ms, and time limits shrink accordingly."""
    clock = PacedClock(pace=50.0)
    began = clock.monotonic_s()
    clock.sleep(1.0)
    assert 1.0 <= clock.monotonic_s() - began < 10.0
    assert clock.real_s(100.0) == 2.0
