"""The plan: from a calibration to looks, runs, shares of the error and covariates; no lever has a say in it."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.factorial.plan import LEAST_SHARE, Plan, plan
from tuner.lever import Ladder
from tuner.noise import Noise

FIELD = Noise(scatter={"c1": 0.016, "c6": 0.056, "prefill": 0.039}, correlation=0.45)


def test_a_noisier_line_gets_more_runs(twelve: Ladder) -> None:
    """Where boots differ by 5.6 % it takes about twice what a disciplined line takes, and never fewer than 64."""
    quiet = plan(twelve, Noise(scatter={"c1": 0.005, "c6": 0.01, "prefill": 0.01}, correlation=0.45))
    assert (quiet.first, quiet.most) == (32, 64)
    assert 100 <= plan(twelve, FIELD).most <= 130
    assert plan(twelve, FIELD, most=40).most == 40


def test_covariates_are_the_quieter_metrics(twelve: Ladder, planned: Callable[..., Plan]) -> None:
    """Six streams are adjusted by one stream and prefill, one stream by nothing: a noisier metric would tell it little."""
    assert planned(twelve).covariates == {"c1": (), "c6": ("c1", "prefill")}


def test_a_quiet_metric_leaves_its_error_to_the_noisy_one(twelve: Ladder) -> None:
    """A useless lever hardly reads +2 % on one stream, so six streams get nearly all of the error."""
    assert plan(twelve, FIELD).shares == {"c1": LEAST_SHARE, "c6": 1 - LEAST_SHARE}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(c1=st.floats(0.002, 0.3), c6=st.floats(0.002, 0.3), r=st.floats(0, 0.9))
def test_shares_are_the_whole_error(twelve: Ladder, c1: float, c6: float, r: float) -> None:
    """Whatever the noise, the primaries' shares are positive and add up to one: that is what bounds the ladder's error."""
    found = plan(twelve, Noise(scatter={"c1": c1, "c6": c6, "prefill": 0.02}, correlation=r), most=64)
    assert sum(found.shares.values()) == pytest.approx(1)
    assert min(found.shares.values()) >= LEAST_SHARE - 1e-12


def test_looks_come_every_four_runs_from_the_first_to_the_last(
    twelve: Ladder, planned: Callable[..., Plan]
) -> None:
    """And nowhere else."""
    found = planned(twelve)
    assert [runs for runs in range(1, 70) if found.is_look(runs)] == [*range(32, 65, 4), *range(65, 70)]
    assert found.look(64, 60).share == found.look(70, 60).share == 1.0


@pytest.mark.parametrize(("scatter", "correlation"), [(0.0, 0.4), (1.0, 0.4), (0.02, 1.0), (0.02, -0.1)])
def test_impossible_noise_is_refused(scatter: float, correlation: float) -> None:
    """A spread of nothing or of everything, and a correlation beyond its range."""
    with pytest.raises(ValueError, match="wanted"):
        Noise(scatter={"c1": scatter}, correlation=correlation)
