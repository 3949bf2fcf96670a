"""Regression on boots of two lines together: one effect of each column, and for each line a noise and a walk of its own.

Takes a design whose first columns are the lines' means, logs of several metrics, and for each boot its line and its number
there; gives for each metric what `tuner.factorial.drift` gives, and how much an effect differs between the lines. The model
of one metric on line l: y = m_l + X b + e with Cov(e) = s^2 q_l (I + r_l M), q of the first line 1, M as in `drift`; boots of
different lines share nothing but b. The r and q are taken from a grid where the restricted likelihood is highest, that of q
times a prior that holds lines for what their calibration says, or for alike.

A line that is noisier than the other tells less of an effect, and so do the boots that its variance is known from: degrees
of freedom are Satterthwaite's (Biometrics Bulletin 2, 1946), n - p where both lines weigh the same, those of the quiet line alone
where the other says nothing.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tuner.factorial.drift import OF_DRIFT, RATIOS, Fit, Floats

LINES = 2
"""Lines that a regression takes: the grid grows with each by a factor of 42, and nobody has asked for a third."""

LEAST_DEGREES = 0.5
"""What is reckoned for a line whose few boots its means, columns and drift use up: it then holds the whole down to next to nothing."""

VARIANCES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Values of q. Ours: noise reported of one line and of another differs by up to 2.6, in variance 6.8 (docs/method.md)."""


Pair = tuple[int, int]


TRUST = math.log(1.5)
"""How far log q is expected from what the plan says, as the standard deviation of a normal prior: a few boots of luck must not make a
line quiet.
Ours: of draws of 32 boots and 12 columns on lines that are alike, |t| passes its 5 % quantile in 11 % without it and in 7 % with it;
in 6 % where one line is regressed by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An effect line by line, with standard errors; `difference` is the second line's less the first's.

    `on` and `off` count the measured boots of each line with the column on and off.
    """

    effects: tuple[float, float]
    errors: tuple[float, float]
    difference: float
    error: float
    degrees: int
    on: tuple[int, int]
    off: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Grid:
    """Everything at every point of the grid: joined cross products, and what the likelihood needs; first axis: the points."""

    crosses: Floats
    determinants: Floats
    ratios: tuple[tuple[float, float, float], ...]


class PooledRegression:
    """Boots of two lines prepared for fits: as `drift.Regression`, with `places`, (n,), the line of each boot, 0 or 1.

    The design is the lines' two means, then the columns of interest; all independent.
    """

    def __init__(
        self, design: Floats, logs: Floats, numbers: Floats, places: Floats, expected: tuple[float, ...] = ()
    ) -> None:
        """Whiten each line once for each ratio, and add up the cross products over the grid; `expected` is q by metric, 1 by default."""
        self.boots, self.columns = design.shape
        self.metrics = logs.shape[1]
        self.counts: Pair = int((places == 0).sum()), int((places == 1).sum())
        self._on = [design[places == line].sum(axis=0) for line in range(LINES)]
        sides = np.where(places == 0, -0.5, 0.5)[:, None] * design[:, LINES:]
        joined = np.hstack([design, logs, sides])
        parts = [
            [_cross(ratio, joined[places == line], numbers[places == line]) for ratio in RATIOS]
            for line in range(LINES)
        ]
        self._grid = _grid(parts, self.counts)
        self._priors = [self._prior(q) for q in expected or (1.0,) * self.metrics]
        self._left = self._solve()

    def fit(self, metric: int, covariates: tuple[int, ...] = ()) -> Fit:
        """Return what one metric (a column of the logs) says, adjusted by others."""
        spare = self.boots - self.columns - len(covariates)
        if spare - LINES * OF_DRIFT < 1:
            unknown = np.full(self.columns, np.inf)
            return Fit(effects=np.zeros(self.columns), errors=unknown, degrees=0, ratio=0.0, scatter=np.inf)
        at, squared = self._best(metric, covariates, spare)
        effects, spread = self._adjusted(at, metric, covariates)
        scatter = math.sqrt(squared / (spare - LINES * OF_DRIFT))
        ratio, _, variance = self._grid.ratios[at]
        return Fit(
            effects=effects,
            errors=scatter * np.sqrt(spread),
            degrees=self._degrees(variance, len(covariates)),
            ratio=ratio,
            scatter=scatter * math.sqrt(_pooled(variance)),
        )

    def split(self, column: int, metric: int) -> Split | None:
        """Return a column's effect line by line, the others' in common; None where the boots cannot tell the lines' apart.

        At the point of the grid that the pooled fit took, without covariates.
        """
        spare = self.boots - self.columns - 1
        if spare - LINES * OF_DRIFT < 1:
            return None
        at, _ = self._best(metric, (), spare)
        own, side = self.columns + metric, self.columns + self.metrics + column - LINES
        kept = [*range(self.columns), side]
        cross = self._grid.crosses[at]
        square = cross[np.ix_(kept, kept)]
        if np.linalg.cond(square) > 1e10:
            return None
        inverse = np.linalg.inv(square)
        found = inverse @ cross[kept, own]
        left = float(cross[own, own] - cross[own, kept] @ found)
        variance = max(left, 0.0) / (spare - LINES * OF_DRIFT)
        mean, apart = float(found[column]), float(found[-1])
        degrees = min(spare - LINES * OF_DRIFT, self._degrees(self._grid.ratios[at][2], 0))
        on = int(self._on[0][column]), int(self._on[1][column])
        covariance = variance * inverse[np.ix_([column, -1], [column, -1])]
        return _split(mean, apart, covariance, degrees, on, self.counts)

    def _prior(self, expected: float) -> Floats:
        """Return the log of the prior at every point of the grid, up to a constant."""
        return np.array([-((math.log(q / expected) / TRUST) ** 2) / 2 for _, _, q in self._grid.ratios])

    def _solve(self) -> tuple[Any, Any, Any, Any]:
        """Return inverse, effects, what is left of the metrics and log determinants, at every point of the grid."""
        p, last = self.columns, self.columns + self.metrics
        square, right = self._grid.crosses[:, :p, :p], self._grid.crosses[:, :p, p:last]
        if np.linalg.matrix_rank(square[0]) < p:
            raise ValueError("the design has columns that depend on each other, wanted them independent")
        inverse = np.linalg.inv(square)
        effects = inverse @ right
        left = self._grid.crosses[:, p:last, p:last] - right.transpose(0, 2, 1) @ effects
        determinants: Floats = self._grid.determinants + np.linalg.slogdet(square)[1]
        return inverse, effects, left, determinants

    def _best(self, metric: int, covariates: tuple[int, ...], spare: int) -> tuple[int, float]:
        """Return the point of the grid with the highest restricted likelihood, and the squares left there."""
        _, _, left, determinants = self._left
        squared = left[:, metric, metric]
        if covariates:
            chosen = list(covariates)
            theirs, ours = left[:, chosen][:, :, chosen], left[:, chosen, metric][:, :, None]
            squared = squared - (ours.transpose(0, 2, 1) @ np.linalg.solve(theirs, ours))[:, 0, 0]
            determinants = determinants + np.linalg.slogdet(theirs)[1]
        likelihood = -(spare * np.log(np.maximum(squared, 1e-300)) + determinants) / 2 + self._priors[metric]
        at = int(np.argmax(likelihood))
        return at, max(float(squared[at]), 0.0)

    def _adjusted(self, at: int, metric: int, covariates: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return the effects at one point of the grid, and their variances over s^2."""
        inverse, effects, left, _ = (found[at] for found in self._left)
        own, spread = effects[:, metric], np.diag(inverse)
        if covariates:
            chosen = list(covariates)
            moves, theirs = effects[:, chosen], left[np.ix_(chosen, chosen)]
            own = own - moves @ np.linalg.solve(theirs, left[chosen, metric])
            spread = spread + np.einsum("ij,ji->i", moves, np.linalg.solve(theirs, moves.T))
        return own, spread

    def _degrees(self, variance: float, covariates: int) -> int:
        weights = (self.counts[0], self.counts[1] / variance)
        used = (self.columns + covariates) / self.boots
        return _satterthwaite(
            weights, tuple(max(count * (1 - used) - OF_DRIFT, LEAST_DEGREES) for count in self.counts)
        )


def _split(  # noqa: PLR0913, PLR0917 - the parts of one value
    mean: float, apart: float, covariance: Floats, degrees: int, on: Pair, counts: Pair
) -> Split:
    errors = tuple(
        math.sqrt(max(0.0, float(covariance[0, 0] + sign * covariance[0, 1] + covariance[1, 1] / 4)))
        for sign in (-1, 1)
    )
    return Split(
        effects=(mean - apart / 2, mean + apart / 2),
        errors=(errors[0], errors[1]),
        difference=apart,
        error=math.sqrt(float(covariance[1, 1])),
        degrees=degrees,
        on=on,
        off=(counts[0] - on[0], counts[1] - on[1]),
    )


def _cross(ratio: float, joined: Floats, numbers: Floats) -> tuple[Floats, float]:
    """Return the cross products of one line in coordinates in which its noise is white, and the log determinant."""
    covariance = np.eye(len(numbers)) + ratio * np.minimum(numbers[:, None], numbers[None, :])
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, joined)
    return white.T @ white, 2.0 * float(np.log(np.diag(root)).sum())


def _grid(parts: list[list[tuple[Floats, float]]], counts: tuple[int, ...]) -> _Grid:
    points = tuple(product(range(len(RATIOS)), range(len(RATIOS)), VARIANCES))
    return _Grid(
        crosses=np.array([parts[0][one][0] + parts[1][two][0] / q for one, two, q in points]),
        determinants=np.array(
            [parts[0][one][1] + parts[1][two][1] + counts[1] * math.log(q) for one, two, q in points]
        ),
        ratios=tuple((RATIOS[one], RATIOS[two], q) for one, two, q in points),
    )


def _pooled(variance: float) -> float:
    """Return the variance of one line that tells as much as the two do, over that of the first: their harmonic mean."""
    return 2 * variance / (1 + variance)


def _satterthwaite(weights: tuple[float, ...], degrees: tuple[float, ...]) -> int:
    whole = sum(weights)
    return max(1, int(1 / sum((one / whole) ** 2 / left for one, left in zip(weights, degrees, strict=True))))
