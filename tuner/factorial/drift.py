"""Regression on boots of a line that wanders: white noise of each boot plus a random walk over boot numbers, by REML.

Takes a design, the logs of several metrics and the boot numbers; gives, for each metric, coefficients, their errors and
what is left over. The model of one metric: y = X b + e with Cov(e) = s^2 (I + r M), M_ij = min(t_i, t_j), t the number of
the boot and r the variance of a step of the walk over that of a boot. r is taken from a grid where the restricted
likelihood (Patterson and Thompson, Biometrika 58, 1971) is highest; s^2 = RSS / (n - p - 1): r is one more thing that the
boots tell. Without that, the r at which the noise looks smallest passes for certain, and a useless lever of five on 16 boots was
proven 1.5 to 2 times as often as its bound says (tests/tuner/factorial/test_drift.py).

A metric may have *covariates*: other metrics of the same boots, from which its coefficients are adjusted as in the
analysis of covariance, b_adj = b - B g: B holds the covariates' own coefficients on X, g the regression of what X leaves
of the metric on what X leaves of the covariates. That takes out the noise and the drift they share, and is unbiased for
a column that does not move the covariates.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RATIOS = (0.0, 0.01, 0.04, 0.12, 0.4, 1.2)
"""Values of r. Ours: a walk of 0.5 % a boot is 0.25 times the variance of a boot of 1 %, 0.008 times that of 5.6 %."""

OF_DRIFT = 1
"""Degrees of freedom that choosing r takes. Ours: with it 5 levers on 16 boots pass levels from 5 to
0.5 % 1.0 to 1.3 times as often as they say, without it 1.3 to 2 times; 12 levers on 64 boots 1.0 times, with drift and without."""

_SMALLEST_PIVOT = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What one metric says of each column: coefficients and standard errors, shape (p,); `degrees` of freedom.

    `scatter` is s, the standard deviation from boot to boot that neither columns, covariates nor drift explain.
    """

    effects: Floats
    errors: Floats
    degrees: int
    ratio: float
    scatter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whitened:
    """The regression of every metric at one ratio r, in coordinates in which the noise is white."""

    ratio: float
    effects: Floats
    left: Floats
    inverse: Floats
    log_determinant: float


class Regression:
    """Boots prepared for fits: the design, shape (n, p) and of full rank, the logs, (n, q), and rising boot numbers, (n,)."""

    def __init__(self, design: Floats, logs: Floats, numbers: Floats) -> None:
        """Whiten and regress once for each ratio; every fit draws on these."""
        self.boots, self.columns = design.shape
        walk = np.minimum(numbers[:, None], numbers[None, :])
        joined = np.hstack([design, logs])
        self._at = tuple(_whiten(ratio, walk, joined, self.columns) for ratio in RATIOS)

    def fit(self, metric: int, covariates: tuple[int, ...] = ()) -> Fit:
        """Return what one metric (a column of the logs) says, adjusted by others."""
        degrees = self.boots - self.columns - len(covariates) - OF_DRIFT
        if degrees < 1:
            unknown = np.full(self.columns, np.inf)
            return Fit(effects=np.zeros(self.columns), errors=unknown, degrees=0, ratio=0.0, scatter=np.inf)
        found = [_adjusted(one, metric, covariates, degrees) for one in self._at]
        return max(found, key=lambda one: one[0])[1]


def independent(design: Floats) -> tuple[int, ...]:
    """Return the columns, from the left, that no earlier ones add up to."""
    kept: list[int] = []
    basis = np.zeros((design.shape[0], 0))
    for at in range(design.shape[1]):
        left = design[:, at] - basis @ (basis.T @ design[:, at])
        left -= basis @ (basis.T @ left)
        length = float(np.linalg.norm(left))
        if length > 1e-6 * (1.0 + float(np.linalg.norm(design[:, at]))):
            kept.append(at)
            basis = np.hstack([basis, left[:, None] / length])
    return tuple(kept)


def _whiten(ratio: float, walk: Floats, joined: Floats, columns: int) -> _Whitened:
    """Solve the least squares at one ratio: with V = L L', regress inv(L) y on inv(L) X."""
    if ratio:
        covariance = ratio * walk
        covariance[np.diag_indices_from(covariance)] += 1.0
        root, _ = scipy.linalg.lapack.dpotrf(covariance, lower=1, overwrite_a=1)
        white, _ = scipy.linalg.lapack.dtrtrs(root, joined, lower=1)
        log_determinant = 2.0 * float(np.log(np.diag(root)).sum())
    else:
        white, log_determinant = joined, 0.0
    design, logs = white[:, :columns], white[:, columns:]
    cross = design.T @ white
    root, fault = scipy.linalg.lapack.dpotrf(cross[:, :columns], lower=1)
    if fault or float(np.diag(root).min()) < _SMALLEST_PIVOT:
        raise ValueError("the design has columns that depend on each other, wanted them independent")
    inverse = scipy.linalg.lapack.dpotri(root, lower=1)[0]
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    effects = inverse @ cross[:, columns:]
    log_determinant += 2.0 * float(np.log(np.diag(root)).sum())
    return _Whitened(
        ratio=ratio,
        effects=effects,
        left=logs - design @ effects,
        inverse=inverse,
        log_determinant=log_determinant,
    )


def _adjusted(at: _Whitened, metric: int, covariates: tuple[int, ...], degrees: int) -> tuple[float, Fit]:
    """Return the restricted log-likelihood at one ratio, up to a constant, and the fit there."""
    own, effects = at.left[:, metric], at.effects[:, metric]
    spread, log_determinant = np.diag(at.inverse), at.log_determinant
    if covariates:
        chosen = list(covariates)
        theirs, moves = at.left[:, chosen], at.effects[:, chosen]
        squares = theirs.T @ theirs
        slopes = np.linalg.solve(squares, theirs.T @ own)
        own, effects = own - theirs @ slopes, effects - moves @ slopes
        spread = spread + np.einsum("ij,ji->i", moves, np.linalg.solve(squares, moves.T))
        log_determinant += float(np.linalg.slogdet(squares)[1])
    squared = float(own @ own)
    likelihood = -((degrees + OF_DRIFT) * float(np.log(max(squared, 1e-300))) + log_determinant) / 2
    scatter = (squared / degrees) ** 0.5
    fit = Fit(
        effects=effects,
        errors=scatter * np.sqrt(spread),
        degrees=degrees,
        ratio=at.ratio,
        scatter=scatter,
    )
    return likelihood, fit
