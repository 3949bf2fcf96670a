"""Regression on boots of two lines: against textbook matrices, one line alone, and draws whose errors are known."""

from itertools import product

import numpy as np
import pytest
from scipy import linalg, stats

from tuner.factorial.drift import OF_DRIFT, RATIOS
from tuner.factorial.pooled import LINES, TRUST, VARIANCES, PooledRegression

Array = np.ndarray


def drawn(seed: int, boots: int = 30, loud: float = 2.0) -> tuple[Array, Array, Array, Array]:
    """Two lines of that many boots: means, four columns, three correlated metrics, boot numbers and lines; the second is louder."""
    random = np.random.default_rng(seed)
    places = np.repeat([0, 1], boots)
    means = np.stack([places == 0, places == 1], axis=1)
    design = np.hstack([means, random.integers(0, 2, (2 * boots, 4))]).astype(float)
    noise = random.multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), 2 * boots)
    noise *= np.where(places == 0, 1.0, loud)[:, None]
    numbers = np.tile(np.arange(1.0, boots + 1), 2)
    return design, noise + 5.0 * places[:, None], numbers, places


def covariance_at(numbers: Array, places: Array, ratios: tuple[float, float], variance: float) -> Array:
    """The covariance of all boots over that of one of the first line."""
    blocks = [
        np.eye(int((places == line).sum()))
        + ratio * np.minimum.outer(numbers[places == line], numbers[places == line])
        for line, ratio in enumerate(ratios)
    ]
    return linalg.block_diag(blocks[0], variance * blocks[1])


def restricted(design: Array, log: Array, covariance: Array) -> float:
    """The restricted log-likelihood from its definition: the likelihood of error contrasts K'y with K'X = 0."""
    contrasts = linalg.null_space(design.T)
    inner, left = contrasts.T @ covariance @ contrasts, contrasts.T @ log
    scale = float(left @ np.linalg.solve(inner, left)) / len(left)
    return float(stats.multivariate_normal(np.zeros(len(left)), scale * inner).logpdf(left))


def likeliest(design: Array, log: Array, numbers: Array, places: Array) -> Array:
    """The covariance, of those on the grid, under which the contrasts, times the prior of q, are likeliest."""
    points = product(product(RATIOS, RATIOS), VARIANCES)
    found = [
        (covariance_at(numbers, places, ratios, variance), -((np.log(variance) / TRUST) ** 2) / 2)
        for ratios, variance in points
    ]
    return max(found, key=lambda one: restricted(design, log, one[0]) + one[1])[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_noise_and_drift_are_where_the_contrasts_are_likeliest(seed: int) -> None:
    """Effects and errors are those of generalised least squares there."""
    design, logs, numbers, places = drawn(seed, boots=16)
    fit = PooledRegression(design, logs, numbers, places).fit(1)
    inverse = np.linalg.inv(likeliest(design, logs[:, 1], numbers, places))
    spread = np.linalg.inv(design.T @ inverse @ design)
    effects = spread @ design.T @ inverse @ logs[:, 1]
    left = logs[:, 1] - design @ effects
    variance = left @ inverse @ left / (len(left) - 6 - LINES * OF_DRIFT)
    assert fit.effects == pytest.approx(effects)
    assert fit.errors == pytest.approx(np.sqrt(variance * np.diag(spread)))


def test_covariates_are_columns_of_the_regression() -> None:
    """Adjusting by two metrics is the regression that has them as columns, at one point of the grid."""
    design, logs, numbers, places = drawn(4, boots=16)
    regression = PooledRegression(design, logs, numbers, places)
    fit = regression.fit(1, (0, 2))
    wide = np.hstack([design, logs[:, [0, 2]]])
    inverse = np.linalg.inv(likeliest(wide, logs[:, 1], numbers, places))
    spread = np.linalg.inv(wide.T @ inverse @ wide)
    effects = spread @ wide.T @ inverse @ logs[:, 1]
    left = logs[:, 1] - wide @ effects
    variance = left @ inverse @ left / (len(left) - 8 - LINES * OF_DRIFT)
    assert fit.effects == pytest.approx(effects[:6])
    assert fit.errors == pytest.approx(np.sqrt(variance * np.diag(spread))[:6])


def test_degrees_follow_the_line_that_tells_more() -> None:
    """Where both lines are alike n - p and one less for each line's drift; where one is far louder about those of the other."""
    design, logs, numbers, places = drawn(7, loud=1.0)
    alike = PooledRegression(design, logs, numbers, places).fit(0).degrees
    design, logs, numbers, places = drawn(7, loud=4.0)
    unlike = PooledRegression(design, logs, numbers, places).fit(0).degrees
    assert 46 <= alike <= 52
    assert unlike <= alike - 8


def test_effects_of_two_lines_are_told_apart() -> None:
    """A column that acts on the second line only: its split has the difference, other columns none."""
    design, logs, numbers, places = drawn(5)
    logs = logs * 0.1
    logs[:, 1] += 2.0 * design[:, 3] * (places == 1)
    regression = PooledRegression(design, logs, numbers, places)
    split, other = regression.split(3, 1), regression.split(4, 1)
    assert split is not None
    assert other is not None
    assert split.effects == pytest.approx((0.0, 2.0), abs=0.25)
    assert split.difference > 5 * split.error
    assert sum(split.on) == design[:, 3].sum()
    assert sum(split.on) + sum(split.off) == len(design)


def test_a_column_of_one_line_only_has_no_split() -> None:
    """On in no boot of the second line: what it does there cannot be known."""
    design, logs, numbers, places = drawn(6)
    design[places == 1, 3] = 0.0
    assert PooledRegression(design, logs, numbers, places).split(3, 1) is None


@pytest.mark.parametrize("loud", [1.0, 3.0])
def test_errors_are_those_of_the_draws(loud: float) -> None:
    """Over 300 draws of four columns |t| passes its own 5 % quantile in 2 to 7 %, alike or unlike lines."""
    hits = 0
    for seed in range(300):
        design, logs, numbers, places = drawn(1000 + seed, boots=24, loud=loud)
        fit = PooledRegression(design, logs, numbers, places).fit(0)
        hits += int((abs(fit.effects[2:] / fit.errors[2:]) > stats.t.ppf(0.975, fit.degrees)).sum())
    assert 0.02 <= hits / 1200 <= 0.07
