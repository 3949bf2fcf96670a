"""Two configurations compared on one metric: ratio, interval, and what to think of them.

The model is linear on the log of the metric: one mean for each configuration booted so far and one residual variance
pooled over all of them, so that the boots of every earlier lever help to tell how noisy this line is. It takes the
spread of the log to be the same under each configuration; a lever that changes the noise itself is not modelled.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sparkctl.units import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One arm against a base; ratios, so 1.03 is 3 % more than the base.

    `low` and `high` bound the two-sided interval at `confidence`; without degrees of freedom it is (0, inf), without
    boots of an arm the estimate is nan. `error` is the standard error and `scatter` the residual standard deviation
    from boot to boot, both of the log (0.01 is about 1 %) and inf where they cannot be known.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    error: float
    scatter: float
    n_arm: int
    n_base: int
    degrees: int
    warnings: tuple[str, ...] = ()


def compare(samples: Mapping[str, tuple[float, ...]], arm: str, base: str, confidence: float) -> Comparison:
    """Compare two configurations by the ratio of their geometric means.

    With y = log x, n_c boots of configuration c and their mean m_c: d = m_arm - m_base;
    s^2 = sum_c sum_i (y_ci - m_c)^2 / f with f = sum_c (n_c - 1) degrees of freedom (the pooled variance of a one-way
    layout); se = s * sqrt(1/n_arm + 1/n_base); interval exp(d -/+ t_f((1 + confidence)/2) * se). With only two
    configurations this is Student's two-sample test with equal variances.

    Args:
        samples: the metric of every measured boot (above 0), by configuration.
        arm: the configuration in question; it may have no boots yet.
        base: the configuration to compare with; likewise.
        confidence: two-sided, between 0 and 1.

    Raises:
        ValueError: a sample is not above 0, or the confidence is none.

    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}, wanted a chance between 0 and 1")
    logs = {name: tuple(math.log(value) for value in values) for name, values in samples.items()}
    of_arm, of_base = logs.get(arm, ()), logs.get(base, ())
    scatter, degrees = _scatter(logs)
    difference = _mean(of_arm) - _mean(of_base)
    error = scatter * math.sqrt(1 / len(of_arm) + 1 / len(of_base)) if of_arm and of_base else math.inf
    low, high = _interval(difference, error, degrees, confidence)
    return Comparison(
        estimate=math.exp(difference),
        low=low,
        high=high,
        confidence=confidence,
        error=error,
        scatter=scatter,
        n_arm=len(of_arm),
        n_base=len(of_base),
        degrees=degrees,
        warnings=_warnings(len(of_arm), len(of_base), degrees, scatter),
    )


def boots_wanted(scatter: float, effect: float, alpha: float, power: float) -> int:
    """Return the boots each of two arms needs to prove an effect: n = 2 s^2 (z_(1-alpha) + z_power)^2 / effect^2.

    The normal approximation for two equal arms; `effect` is on the log scale, `alpha` one-sided. At least 1.
    """
    from scipy import special  # noqa: PLC0415  # 0.2 s that a list of rows must not pay

    quantiles = float(special.ndtri(1 - alpha)) + float(special.ndtri(power))
    return max(1, math.ceil(2 * (scatter * quantiles / effect) ** 2))


def spread(found: Comparison) -> str:
    """Format a comparison: `+5.9 % (+4.8 % to +7.0 %)`, and without an interval where nothing bounds it."""
    if math.isinf(found.high):
        return f"{percent(found.estimate)} (no interval)"
    return f"{percent(found.estimate)} ({percent(found.low)} to {percent(found.high)})"


def _scatter(logs: Mapping[str, tuple[float, ...]]) -> tuple[float, int]:
    degrees = sum(len(values) - 1 for values in logs.values() if values)
    if degrees == 0:
        return math.inf, 0
    squares = math.fsum((value - _mean(values)) ** 2 for values in logs.values() for value in values)
    return math.sqrt(squares / degrees), degrees


def _mean(values: tuple[float, ...]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _interval(difference: float, error: float, degrees: int, confidence: float) -> tuple[float, float]:
    if math.isinf(error):
        return 0.0, math.inf
    from scipy import special  # noqa: PLC0415  # 0.2 s that a list of rows must not pay

    reach = float(special.stdtrit(degrees, (1 + confidence) / 2)) * error
    return ratio(difference - reach), ratio(difference + reach)


def ratio(log: float) -> float:
    """Return exp(log); inf where a t quantile on one degree of freedom asks for more than a float holds."""
    return math.exp(log) if log < 700 else math.inf


def _warnings(n_arm: int, n_base: int, degrees: int, scatter: float) -> tuple[str, ...]:
    found = []
    if min(n_arm, n_base) < 2:
        found.append(f"need >= 2 boots of each arm, have {n_arm} and {n_base}")
    if degrees == 0:
        found.append("no configuration was booted twice, so the noise is unknown")
    elif scatter == 0:
        found.append("repeated boots agree to the last digit, so the noise reads as 0")
    return tuple(found)
