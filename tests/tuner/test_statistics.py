"""Comparisons against scipy, against least squares, and with too little data."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuner.statistics import boots_wanted, compare

rates = st.lists(st.integers(500, 700), min_size=2, max_size=8, unique=True).map(
    lambda ns: tuple(n / 10 for n in ns)
)


@given(arm=rates, base=rates, confidence=st.floats(0.5, 0.999))
def test_two_arms_are_students_test_with_equal_variances(
    arm: tuple[float, ...], base: tuple[float, ...], confidence: float
) -> None:
    """With nothing else on record the interval is that of scipy's ttest_ind on the logs."""
    found = compare({"arm": arm, "base": base}, "arm", "base", confidence)
    wanted = stats.ttest_ind(np.log(arm), np.log(base), equal_var=True)
    low, high = wanted.confidence_interval(confidence)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-6)
    assert found.degrees == wanted.df


@given(arm=rates, base=rates, others=st.lists(rates, min_size=1, max_size=3))
def test_more_arms_are_least_squares_with_one_mean_each(
    arm: tuple[float, ...], base: tuple[float, ...], others: list[tuple[float, ...]]
) -> None:
    """Estimate, standard error and degrees of freedom are those of ordinary least squares on the design matrix."""
    groups = [base, arm, *others]
    found = compare({str(at): values for at, values in enumerate(groups)}, "1", "0", 0.95)
    design = np.array([np.eye(len(groups))[at] for at, values in enumerate(groups) for _ in values])
    logs = np.log([value for values in groups for value in values])
    means, squares, *_ = np.linalg.lstsq(design, logs)
    degrees = len(logs) - len(groups)
    contrast = np.array([-1.0, 1.0, *([0.0] * len(others))])
    error = math.sqrt(squares[0] / degrees * contrast @ np.linalg.inv(design.T @ design) @ contrast)
    assert found.degrees == degrees
    assert math.log(found.estimate) == pytest.approx(contrast @ means, abs=1e-9)
    assert found.error == pytest.approx(error, rel=1e-6)


def test_one_boot_each_borrows_the_noise_of_other_levers() -> None:
    """Degrees of freedom come from any configuration booted twice."""
    alone = compare({"arm": (60.0,), "base": (58.0,)}, "arm", "base", 0.95)
    helped = compare({"arm": (60.0,), "base": (58.0,), "old": (55.0, 56.0, 55.5)}, "arm", "base", 0.95)
    assert (alone.low, alone.high, alone.degrees) == (0.0, math.inf, 0)
    assert (alone.error, alone.scatter) == (math.inf, math.inf)
    assert alone.warnings == (
        "need >= 2 boots of each arm, have 1 and 1",
        "no configuration was booted twice, so the noise is unknown",
    )
    assert helped.degrees == 2
    assert 0 < helped.low < helped.estimate < helped.high < math.inf


def test_an_arm_without_boots_has_no_estimate() -> None:
    """Nothing to compare is a value with a warning, never an exception."""
    found = compare({"base": (58.0, 59.0)}, "arm", "base", 0.95)
    assert math.isnan(found.estimate)
    assert (found.low, found.high) == (0.0, math.inf)
    assert found.n_arm == 0
    assert "need >= 2 boots" in found.warnings[0]


def test_extreme_quantiles_give_an_infinite_bound_not_an_error() -> None:
    """One degree of freedom at a tiny error asks for more than a float holds."""
    found = compare({"arm": (60.0, 90.0), "base": (58.0,)}, "arm", "base", 1 - 1e-9)
    assert (found.low, found.high) == (0.0, math.inf)


def test_boots_that_agree_exactly_are_warned_of() -> None:
    """Zero noise is a sign of a copied figure."""
    found = compare({"arm": (60.0, 60.0), "base": (58.0, 58.0)}, "arm", "base", 0.95)
    assert found.low == pytest.approx(found.high)
    assert "agree to the last digit" in found.warnings[0]


def test_confidence_outside_0_to_1_is_refused() -> None:
    """A confidence of 95 is a slip of the caller."""
    with pytest.raises(ValueError, match="wanted a chance"):
        compare({}, "arm", "base", 95)


def test_boots_wanted_reach_the_power_they_promise() -> None:
    """At a scatter of 3 % and a gain of 4 % the planned number detects it in 80 % of cases, one fewer does not."""
    boots = boots_wanted(0.03, 0.04, 0.05, 0.8)

    def power(n: int) -> float:
        return float(stats.norm.sf(stats.norm.isf(0.05) - 0.04 / (0.03 * math.sqrt(2 / n))))

    assert power(boots) >= 0.8 > power(boots - 1)
