"""The noise of a line: from boots with known parts between and within, and as others report it where there are too few."""

import math
import random

import pytest

from tuner.metrics import Metric
from tuner.noise import CORRELATION, LEAST_BOOTS, REPORTED, Noise, calibrated, reported
from tuner.workload import Quantity

METRICS: dict[str, Quantity] = {"c1": "per_stream", "c6": "aggregate", "wait": "ttft"}


def drawn(
    boots: int, passes: int, between: float, within: float, seed: int = 1
) -> list[list[tuple[Metric, ...]]]:
    """Boots of a line whose metrics share the luck of their boot."""
    source = random.Random(seed)  # noqa: S311 - noise, not a secret
    found = []
    for _ in range(boots):
        luck = source.gauss(0, between)
        found.append(
            [
                tuple(
                    Metric(name=name, value=50 * math.exp(luck + source.gauss(0, within)), unit="tok/s", n=1)
                    for name in METRICS
                )
                for _ in range(passes)
            ]
        )
    return found


def test_without_boots_it_is_as_others_report_it() -> None:
    """Metrics of which less is better have no bar, so nothing is planned by them."""
    assert reported(METRICS) == Noise(
        scatter={"c1": REPORTED["per_stream"], "c6": REPORTED["aggregate"]}, correlation=CORRELATION
    )
    assert calibrated(drawn(LEAST_BOOTS - 1, 2, 0.02, 0.01), METRICS) == reported(METRICS)


@pytest.mark.parametrize(("between", "within"), [(0.03, 0.01), (0.01, 0.03), (0.02, 0.0)])
def test_many_boots_tell_both_parts(between: float, within: float) -> None:
    """The scatter of one pass a boot, and the share of its variance that passes within a boot have."""
    found = calibrated(drawn(600, 2, between, within), METRICS)
    whole = between**2 + within**2
    assert found.boots == 600
    assert found.scatter["c1"] == pytest.approx(math.sqrt(whole), rel=0.1)
    assert found.within["c1"] == pytest.approx(within**2 / whole, abs=0.08)
    assert found.correlation == pytest.approx(2 * between**2 / (2 * between**2 + within**2), abs=0.08)


def test_a_few_boots_do_not_overrule_the_correlation() -> None:
    """Six boots that agree to the last digit say less than that two metrics are one."""
    same = drawn(6, 1, 0.02, 0.0)
    assert calibrated(same, METRICS).correlation == pytest.approx((6 + 8 * CORRELATION) / 14)


def test_one_pass_a_boot_says_nothing_of_what_is_within() -> None:
    """It is not known, which is not the same as none."""
    found = calibrated(drawn(6, 1, 0.02, 0.01), METRICS)
    assert found.within == {}
    assert found.scatter["c1"] > 0


def test_boots_without_any_spread_leave_the_reported_scatter() -> None:
    """A scatter of nothing cannot be planned with; two figures that are equal to the last bit are no measurement."""
    same = [[(Metric(name="c1", value=50.0, unit="tok/s", n=1),)]] * 4
    assert calibrated(same, METRICS).scatter == reported(METRICS).scatter
