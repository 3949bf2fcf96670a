"""What all measured boots together say of every lever: its effect on each metric, with error and degrees of freedom.

On the log of each metric one column for each lever that has been on and off, and one mean for each line. A primary is adjusted
by the quieter metrics of the same boots (`Plan.covariates`), lever by lever, as far as the lever does not move them.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from tuner.factorial.drift import Fit, Floats, Regression, independent
from tuner.factorial.plan import Plan
from tuner.factorial.pooled import PooledRegression, Split
from tuner.lever import Ladder
from tuner.steps import Trial

HARMS = 2.5
GAINS = 3.5
"""A lever whose t on a covariate lies below -2.5 or above 3.5 is taken to move it, and its estimate is not adjusted by it.

Adjusting all levers leaks: what a lever does to the covariate would pass for luck of its boots. Choosing by the data leaks as
well, the other way: a lever seen to be lucky on the covariate is lucky on the primary too, and would shed the adjustment that
takes that out. So it takes more to shed it upwards, where keeping it can only cost power, than downwards, where it lends
a gain to a lever that harms the covariate. Ours, by benchmarks/tuner_study.py.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Effect of one lever on the log of one metric, its standard error, and from what they come.

    `z` is the normal deviate with the same tail as t = effect / error. `adjusted` names the covariates that were used,
    `n_on` and `n_off` count the measured boots. `single` is what one boot of each arm reads: the first with the lever on
    against the first with it off, the other levers' effects taken out; for the seeds' rule, which judges by that.
    `split` is the effect on each of two `lines`, where boots of two tell it.
    """

    effect: float
    error: float
    degrees: int
    scatter: float
    adjusted: tuple[str, ...]
    n_on: int
    n_off: int
    single: float
    lines: tuple[str, ...] = ()
    split: Split | None = None

    @property
    def z(self) -> float:
        """The one-sided test statistic; 0 where nothing is known of the noise."""
        if not self.degrees:
            return 0.0
        t = self.effect / self.error if self.error else math.copysign(math.inf, self.effect)
        tail = float(scipy.special.stdtr(self.degrees, -abs(t)))
        return math.copysign(-float(scipy.special.ndtri(tail)), t)

    def reach(self, z: float) -> float:
        """Return how far the effect is known on the log scale, for a bound z of the normal."""
        if not math.isfinite(z):
            return math.inf
        return -float(scipy.special.stdtrit(self.degrees, float(scipy.special.ndtr(-z)))) * self.error


Estimates = Mapping[str, Mapping[str, Estimate]]
"""By lever and metric; a lever whose effect cannot be told from others' has none."""


def estimate(ladder: Ladder, plan: Plan, trials: tuple[Trial, ...]) -> Estimates:
    """Estimate every lever's effects from the measured boots among all boots of a climb, in order."""
    names = tuple(dict.fromkeys((*ladder.primary, *(guard.metric for guard in ladder.guards))))
    rows = [
        (number, trial, values)
        for number, trial in numbered(trials)
        if trial.outcome == "measured" and len(values := _values(trial, names)) == len(names)
    ]
    lines = tuple(sorted({trial.line for _, trial, _ in rows}))
    levers = [lever.id for lever in ladder.levers]
    whole = np.array(
        [
            (*(one.line == line for line in lines), *(lever in one.arm for lever in levers))
            for _, one, _ in rows
        ],
        dtype=float,
    )
    if len(rows) < 2:
        return {}
    kept = independent(whole)
    if len(rows) - len(kept) < 1:
        return {}
    logs = np.log(np.array([values for _, _, values in rows]))
    numbers = np.array([float(number) for number, _, _ in rows])
    places = np.array([lines.index(one.line) for _, one, _ in rows])
    regression = (
        Regression(whole[:, kept], logs, numbers)
        if len(lines) == 1
        else PooledRegression(
            whole[:, kept], logs, numbers, places, tuple(plan.variances.get(name, 1.0) for name in names)
        )
    )
    fits = _Fits(
        names=names,
        plan=plan,
        lines=lines,
        design=whole[:, kept],
        logs=logs,
        regression=regression,
        chosen={},
    )
    return {
        levers[column - len(lines)]: {name: _estimate(fits, name, place) for name in names}
        for place, column in enumerate(kept)
        if column >= len(lines)
    }


def numbered(trials: tuple[Trial, ...]) -> Iterator[tuple[int, Trial]]:
    """Give each boot with its number on its own line, from 1."""
    counts: Counter[str] = Counter()
    for trial in trials:
        counts[trial.line] += 1
        yield counts[trial.line], trial


@dataclass(frozen=True, slots=True)
class _Fits:
    """Fits by metric and covariates, made when first asked for."""

    names: tuple[str, ...]
    plan: Plan
    lines: tuple[str, ...]
    design: Floats
    logs: Floats
    regression: Regression | PooledRegression
    chosen: dict[tuple[str, tuple[str, ...]], Fit]

    def of(self, name: str, covariates: tuple[str, ...] = ()) -> Fit:
        key = (name, covariates)
        if key not in self.chosen:
            places = tuple(self.names.index(other) for other in covariates)
            self.chosen[key] = self.regression.fit(self.names.index(name), places)
        return self.chosen[key]

    def split(self, name: str, place: int) -> Split | None:
        if isinstance(self.regression, PooledRegression):
            return self.regression.split(place, self.names.index(name))
        return None


def _estimate(fits: _Fits, name: str, place: int) -> Estimate:
    unmoved = tuple(
        other for other in fits.plan.covariates.get(name, ()) if not _moves(fits.of(other), place)
    )
    fit = fits.of(name, unmoved)
    return Estimate(
        effect=float(fit.effects[place]),
        error=float(fit.errors[place]),
        degrees=fit.degrees,
        scatter=fit.scatter,
        adjusted=unmoved,
        n_on=int(fits.design[:, place].sum()),
        n_off=int((1 - fits.design[:, place]).sum()),
        single=_single(fits, name, place),
        lines=fits.lines,
        split=fits.split(name, place),
    )


def _single(fits: _Fits, name: str, place: int) -> float:
    effects, column = fits.of(name).effects, fits.design[:, place]
    first, without = int(np.argmax(column)), int(np.argmin(column))
    left = fits.logs[:, fits.names.index(name)] - fits.design @ effects
    return float(effects[place] + left[first] - left[without])


def _moves(fit: Fit, place: int) -> bool:
    effect, error = fit.effects[place], fit.errors[place]
    return bool(effect < -HARMS * error or effect > GAINS * error)


def _values(trial: Trial, names: tuple[str, ...]) -> tuple[float, ...]:
    found = {metric.name: metric.value for metric in trial.metrics}
    return tuple(found[name] for name in names if name in found)
