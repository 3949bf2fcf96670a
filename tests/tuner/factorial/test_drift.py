"""Regression with drift and covariates: against textbook matrices, a library and draws."""

import numpy as np
import pytest
from scipy import linalg, stats

from tuner.factorial.drift import OF_DRIFT, RATIOS, Regression, independent
from tuner.factorial.hadamard import hadamard

Array = np.ndarray


def drawn(seed: int, boots: int = 48, walk: float = 0.0) -> tuple[Array, Array, Array]:
    """A design of five columns in random order, three correlated metrics, and boot numbers with gaps."""
    random = np.random.default_rng(seed)
    design = np.hstack([np.ones((boots, 1)), random.integers(0, 2, (boots, 4))]).astype(float)
    numbers = np.arange(1.0, boots + 1) + np.arange(boots) // 7
    level = np.cumsum(walk * random.standard_normal(int(numbers[-1]) + 1))[numbers.astype(int)]
    noise = random.multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), boots)
    return design, noise + level[:, None], numbers


def restricted(design: Array, log: Array, numbers: Array, ratio: float) -> float:
    """The restricted log-likelihood from its definition: the likelihood of error contrasts K'y with K'X = 0."""
    covariance = np.eye(len(log)) + ratio * np.minimum.outer(numbers, numbers)
    contrasts = linalg.null_space(design.T)
    inner = contrasts.T @ covariance @ contrasts
    left = contrasts.T @ log
    scale = float(left @ np.linalg.solve(inner, left)) / len(left)
    return float(stats.multivariate_normal(np.zeros(len(left)), scale * inner).logpdf(left))


@pytest.mark.parametrize(("seed", "walk"), [(1, 0.0), (2, 0.3), (3, 1.5)])
def test_ratio_is_where_the_contrasts_are_likeliest(seed: int, walk: float) -> None:
    """Of the grid, the ratio with the highest restricted likelihood; effects and errors are those of least squares there."""
    design, logs, numbers = drawn(seed, walk=walk)
    fit = Regression(design, logs, numbers).fit(1)
    assert fit.ratio == max(RATIOS, key=lambda ratio: restricted(design, logs[:, 1], numbers, ratio))
    inverse = np.linalg.inv(np.eye(48) + fit.ratio * np.minimum.outer(numbers, numbers))
    spread = np.linalg.inv(design.T @ inverse @ design)
    effects = spread @ design.T @ inverse @ logs[:, 1]
    left = logs[:, 1] - design @ effects
    scatter = np.sqrt(left @ inverse @ left / (48 - 5 - OF_DRIFT))
    assert fit.effects == pytest.approx(effects)
    assert fit.errors == pytest.approx(scatter * np.sqrt(np.diag(spread)))
    assert (fit.degrees, fit.scatter) == (43 - OF_DRIFT, pytest.approx(scatter))


def test_covariates_are_columns_of_the_regression() -> None:
    """Adjusting by two metrics is the regression that has them as columns (Frisch, Waugh and Lovell)."""
    design, logs, numbers = drawn(4, walk=0.2)
    fit = Regression(design, logs, numbers).fit(1, (0, 2))
    inverse = np.linalg.inv(np.eye(48) + fit.ratio * np.minimum.outer(numbers, numbers))
    wide = np.hstack([design, logs[:, [0, 2]]])
    spread = np.linalg.inv(wide.T @ inverse @ wide)
    effects = spread @ wide.T @ inverse @ logs[:, 1]
    left = logs[:, 1] - wide @ effects
    errors = np.sqrt(left @ inverse @ left / (48 - 7 - OF_DRIFT) * np.diag(spread))
    assert fit.effects == pytest.approx(effects[:5])
    assert fit.errors == pytest.approx(errors[:5])


def test_without_drift_two_columns_are_students_test() -> None:
    """At ratio 0 a mean and one lever give t of scipy's two-sample test, but for the degree that the ratio takes."""
    random = np.random.default_rng(9)
    on = np.repeat([0.0, 1.0], 20)
    logs = random.standard_normal((40, 1)) + on[:, None]
    numbers = random.permutation(40) + 1.0
    fit = Regression(np.column_stack([np.ones(40), on]), logs, numbers).fit(0)
    known = stats.ttest_ind(logs[20:, 0], logs[:20, 0])
    assert fit.ratio == 0.0
    assert fit.effects[1] / fit.errors[1] == pytest.approx(known.statistic * np.sqrt((38 - OF_DRIFT) / 38))


def test_errors_are_those_of_the_draws() -> None:
    """Over 400 wandering lines the effects scatter as their errors say, within 8 %."""
    deviates = []
    for seed in range(400):
        fit = Regression(*drawn(1000 + seed, walk=0.4)).fit(1, (0,))
        deviates.extend(fit.effects[1:] / fit.errors[1:])
    assert np.std(deviates) == pytest.approx(1.0, abs=0.08)


def folded(random: np.random.Generator) -> Array:
    """A mean and five levers on the 16 runs of a folded block: each run beside its mirror image."""
    half = hadamard(8)[:, random.permutation(8)[:5]]
    pairs = [
        row for at in random.permutation(8) for row in random.permutation(np.array([half[at], -half[at]]))
    ]
    return np.column_stack([np.ones(16), (np.array(pairs) + 1) / 2])


@pytest.mark.parametrize("walk", [0.0, 0.2])
def test_a_short_climb_errs_as_often_as_its_level_says(walk: float) -> None:
    """Levers without effect pass the level of 1.5 % on one side in at most 1.95 % of 10,000 cases; without `OF_DRIFT` in 2.4."""
    random, passed, level = np.random.default_rng(5), 0, 0.015
    mixed = np.linalg.cholesky(np.array([[1.0, 0.45, 0.0], [0.45, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    for _ in range(2000):
        logs = (
            random.standard_normal((16, 3)) @ mixed.T + np.cumsum(walk * random.standard_normal(16))[:, None]
        )
        fit = Regression(folded(random), logs, np.arange(1.0, 17)).fit(1, (0, 2))
        passed += int((fit.effects[1:] / fit.errors[1:] > stats.t.ppf(1 - level, fit.degrees)).sum())
    share = passed / 10_000
    assert 0.011 <= share <= 0.0195


def test_columns_that_others_add_up_to_are_left_out() -> None:
    """The first of two equal columns stays; a lever that was never on has none."""
    design = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 0]], dtype=float)
    assert independent(design) == (0, 1)
    with pytest.raises(ValueError, match="depend on each other"):
        Regression(design, np.zeros((4, 1)), np.arange(4.0))


def test_boots_that_leave_nothing_over_say_nothing() -> None:
    """With as many columns as boots there is no error to be known."""
    design = np.array([[1, 0], [1, 1]], dtype=float)
    fit = Regression(design, np.ones((2, 1)), np.array([1.0, 2.0])).fit(0)
    assert fit.degrees == 0
    assert np.isinf(fit.errors).all()
