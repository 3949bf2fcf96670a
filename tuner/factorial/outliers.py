"""Outliers: a measured boot far below the others on every primary is void once, whatever the probes said; the second time it is data.

A boot is compared with the running median as it comes in, and before each look with what all other boots predict of it:
that finds one among the very first, before there was a median, and one with many good levers on.
"""

import math
import statistics
from dataclasses import replace

import numpy as np

from tuner.factorial.drift import independent
from tuner.lever import Ladder
from tuner.steps import Trial

FAR_BELOW = 0.20
"""A boot this far under the running median on every primary is out. Ours: the hidden slow state costs a third of the speed
(49 % more time, reported), no lever of the public ladders nearly as much; a loss that real comes again and then counts."""

WINDOW = 9
LEAST = 3
"""Measured boots that the median runs over, and the fewest that make one (or that a fit must have to spare)."""

MOST_LEVERAGE = 0.9
"""A boot that alone decides its own prediction cannot be judged by it."""


def sift(ladder: Ladder, trials: tuple[Trial, ...], trial: Trial) -> Trial:
    """Return the trial, as void if it is an outlier against the trials before it."""
    if trial.outcome != "measured" or _was_out(trials, trial):
        return trial
    recent = [one for one in trials if one.outcome == "measured"][-WINDOW:]
    if len(recent) < LEAST:
        return trial
    shares = {name: _share(name, recent, trial) for name in ladder.primary}
    if any(share is None or share > 1 - FAR_BELOW for share in shares.values()):
        return trial
    numbers = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    why = f"{OUT}, the median of {len(recent)} boots: {numbers} of it, wanted above {1 - FAR_BELOW:.0%}"
    return replace(trial, outcome="void", why=why)


def sift_all(ladder: Ladder, trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """Return the trials with those void that lie far below what the others predict of them, the furthest first."""
    while (found := _furthest(ladder, trials)) is not None:
        at, why = found
        trials = (*trials[:at], replace(trials[at], outcome="void", why=why), *trials[at + 1 :])
    return trials


def _furthest(ladder: Ladder, trials: tuple[Trial, ...]) -> tuple[int, str] | None:
    """Return the place of the boot that is furthest out, and why it is.

    By ordinary least squares of the logs on lines and levers; boot i is judged by its deleted residual e_i / (1 - h_i), what it
    differs from the prediction of a fit without it.
    """
    places = [at for at, one in enumerate(trials) if one.outcome == "measured" and _has_all(ladder, one)]
    lines = tuple(dict.fromkeys(trials[at].line for at in places))
    whole = np.array([_columns(ladder, trials[at], lines) for at in places], dtype=float)
    if len(places) < LEAST + 2 or len(places) - np.linalg.matrix_rank(whole) < LEAST:
        return None
    logs = np.log([[_value(trials[at], name) or math.nan for name in ladder.primary] for at in places])
    basis = np.linalg.qr(whole[:, independent(whole)])[0]
    leverages = np.einsum("ij,ij->i", basis, basis)
    residuals = (logs - basis @ (basis.T @ logs)) / np.maximum(1 - leverages, 1e-6)[:, None]
    worst = residuals.max(axis=1)
    far = [
        row
        for row in np.argsort(worst)
        if worst[row] < math.log(1 - FAR_BELOW)
        and leverages[row] < MOST_LEVERAGE
        and not _was_out(trials, trials[places[row]])
    ]
    if not far:
        return None
    shares = dict(zip(ladder.primary, np.exp(residuals[far[0]]), strict=True))
    numbers = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return places[far[0]], f"{OUT}, by all other boots: {numbers} of it, wanted above {1 - FAR_BELOW:.0%}"


def _columns(ladder: Ladder, trial: Trial, lines: tuple[str, ...]) -> tuple[bool, ...]:
    return (
        *(trial.line == line for line in lines),
        *(lever.id in trial.arm for lever in ladder.levers),
    )


OUT = "far below what was to be expected"


def _was_out(trials: tuple[Trial, ...], trial: Trial) -> bool:
    return any(
        (one.line, one.arm) == (trial.line, trial.arm) and one.outcome == "void" and one.why.startswith(OUT)
        for one in trials
    )


def _has_all(ladder: Ladder, trial: Trial) -> bool:
    return all(_value(trial, name) is not None for name in ladder.primary)


def _share(name: str, recent: list[Trial], trial: Trial) -> float | None:
    value = _value(trial, name)
    values = [found for one in recent if (found := _value(one, name)) is not None]
    return value / statistics.median(values) if value is not None and values else None


def _value(trial: Trial, name: str) -> float | None:
    return next((metric.value for metric in trial.metrics if metric.name == name), None)
