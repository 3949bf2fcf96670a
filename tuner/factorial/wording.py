"""Wording: the numbers behind a verdict as the comparison and the sentences that an owner reads. Pure."""

import math
from collections.abc import Mapping

from scipy import special

from sparkctl.units import percent
from tuner.factorial.estimates import Estimate
from tuner.statistics import Comparison


def comparison(found: Estimate, z: float) -> Comparison:
    """Return an estimate with its interval at a bound of z, as ratios."""
    reach = found.reach(z)
    return Comparison(
        estimate=math.exp(found.effect),
        low=math.exp(found.effect - reach) if math.isfinite(reach) else 0.0,
        high=math.exp(found.effect + reach) if math.isfinite(reach) else math.inf,
        confidence=1 - 2 * float(special.ndtr(-z)),
        error=found.error,
        scatter=found.scatter,
        n_arm=found.n_on,
        n_base=found.n_off,
        degrees=found.degrees,
        warnings=(f"adjusted by {', '.join(found.adjusted)}",) if found.adjusted else (),
    )


def spread(found: Comparison) -> str:
    """Return an effect with its interval, in percent."""
    if math.isinf(found.high):
        return f"{percent(found.estimate)} (no interval)"
    return f"{percent(found.estimate)} ({percent(found.low)} to {percent(found.high)})"


def bar(metric: str, most_loss: float, metrics: Mapping[str, Comparison]) -> str:
    """Return a guard's effect beside its bar."""
    if metric not in metrics:
        return f"{metric} not measured"
    return f"{metric} {spread(metrics[metric])}, bar {percent(1 - most_loss)}"
