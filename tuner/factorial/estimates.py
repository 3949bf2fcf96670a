"""What all measured boots together say of every lever: its effect on each metric, with error and degrees of freedom.

On the log of each metric one column for each lever that has been on and off, and one mean. A primary is adjusted by the
quieter metrics of the same boots (`Plan.covariates`), lever by lever, as far as the lever does not move them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from tuner.factorial.drift import Fit, Regression, independent
from tuner.factorial.plan import Plan
from tuner.ladder import Trial
from tuner.lever import Ladder

MAY_MOVE = 1.5
MOVES = 3.5
"""|t| of a lever on a covariate below which it is taken not to move it, and above which it surely does.

Below, the estimate is adjusted by the covariate; above, it is not. Between the two the weaker of both counts: adjusting all
levers alike leaks (what the covariate says of a lever that moves it is no luck of the boot), and so does choosing by the
data: a lever whose luck on the covariate was seen is no longer one of average luck. Ours, by benchmarks/tuner_study.py.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Effect of one lever on the log of one metric, its standard error, and from what they come.

    `z` is the normal deviate with the same tail as t = effect / error. `adjusted` names the covariates that were used,
    `n_on` and `n_off` count the measured boots.
    """

    effect: float
    error: float
    degrees: int
    scatter: float
    adjusted: tuple[str, ...]
    n_on: int
    n_off: int

    @property
    def z(self) -> float:
        """The one-sided test statistic; 0 where nothing is known of the noise."""
        if not self.degrees:
            return 0.0
        t = self.effect / self.error if self.error else math.copysign(math.inf, self.effect)
        tail = float(special.stdtr(self.degrees, -abs(t)))
        return math.copysign(-float(special.ndtri(tail)), t)

    def reach(self, z: float) -> float:
        """Return how far the effect is known on the log scale, for a bound z of the normal."""
        if not math.isfinite(z):
            return math.inf
        return -float(special.stdtrit(self.degrees, float(special.ndtr(-z)))) * self.error


Estimates = Mapping[str, Mapping[str, Estimate]]
"""By lever and metric; a lever whose effect cannot be told from others' has none."""


def estimate(ladder: Ladder, plan: Plan, trials: tuple[Trial, ...]) -> Estimates:
    """Estimate every lever's effects from the measured boots among all boots of a climb, in order."""
    names = tuple(dict.fromkeys((*ladder.primary, *(guard.metric for guard in ladder.guards))))
    rows = [
        (number, trial.arm, values)
        for number, trial in enumerate(trials, 1)
        if trial.outcome == "measured" and len(values := _values(trial, names)) == len(names)
    ]
    levers = [lever.id for lever in ladder.levers]
    whole = np.array([[1.0, *(lever in arm for lever in levers)] for _, arm, _ in rows], dtype=float)
    if len(rows) < 2:
        return {}
    kept = independent(whole)
    if len(rows) - len(kept) < 1:
        return {}
    logs = np.log(np.array([values for _, _, values in rows]))
    regression = Regression(whole[:, kept], logs, np.array([float(number) for number, _, _ in rows]))
    counts = whole.sum(axis=0)
    fits = _Fits(names=names, plan=plan, regression=regression, chosen={})
    return {
        levers[column - 1]: {
            name: _estimate(fits, name, place, int(counts[column]), len(rows)) for name in names
        }
        for place, column in enumerate(kept)
        if column
    }


@dataclass(frozen=True, slots=True)
class _Fits:
    """Fits by metric and covariates, made when first asked for."""

    names: tuple[str, ...]
    plan: Plan
    regression: Regression
    chosen: dict[tuple[str, tuple[str, ...]], Fit]

    def of(self, name: str, covariates: tuple[str, ...] = ()) -> Fit:
        key = (name, covariates)
        if key not in self.chosen:
            places = tuple(self.names.index(other) for other in covariates)
            self.chosen[key] = self.regression.fit(self.names.index(name), places)
        return self.chosen[key]


def _estimate(fits: _Fits, name: str, place: int, n_on: int, boots: int) -> Estimate:
    """Return the weakest of the estimates that the covariates allow: by t, so the one that is hardest to accept."""
    allowed: list[tuple[str, ...]] = [()]
    for other in fits.plan.covariates.get(name, ()):
        moved = _size(fits.of(other), place)
        without = allowed if moved > MAY_MOVE else []
        allowed = [*without, *((*chosen, other) for chosen in allowed if moved <= MOVES)] or allowed
    used = min(allowed, key=lambda chosen: _t(fits.of(name, chosen), place))
    fit = fits.of(name, used)
    return Estimate(
        effect=float(fit.effects[place]),
        error=float(fit.errors[place]),
        degrees=fit.degrees,
        scatter=fit.scatter,
        adjusted=used,
        n_on=n_on,
        n_off=boots - n_on,
    )


def _t(fit: Fit, place: int) -> float:
    return float(fit.effects[place] / fit.errors[place]) if fit.degrees else 0.0


def _size(fit: Fit, place: int) -> float:
    return abs(_t(fit, place))


def _values(trial: Trial, names: tuple[str, ...]) -> tuple[float, ...]:
    found = {metric.name: metric.value for metric in trial.metrics}
    return tuple(found[name] for name in names if name in found)
