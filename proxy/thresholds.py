"""Thresholds: below which log-probability a sampled token is improbable, by temperature.

vLLM reports log-probabilities before it divides by the temperature, and the hotter a reply is sampled the more improbable tokens
stand in it: so one threshold cannot serve all. A row holds for requests up to its temperature, beyond the last row ours holds.
"""

from dataclasses import dataclass
from typing import Literal

from tuner.alarm import IMPROBABLE_LOGPROB


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Up to this temperature a token below `logprob` is improbable; chosen on so many healthy `replies`, of which `alarms` raised it.

    `low` and `high` are the 95 % interval of that rate (Clopper and Pearson); `loops` are replies that were left out, since they loop by
    themselves: they are no false alarms.
    """

    temperature: float
    logprob: float
    replies: int
    alarms: int
    loops: int = 0
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be."""
        if self.temperature < 0:
            raise ValueError(f"the temperature is {self.temperature:g}, wanted at least 0")
        if self.logprob >= 0:
            raise ValueError(f"the log-probability is {self.logprob:g}, wanted one below 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What a calibration found for a model; without rows ours holds at every temperature."""

    schema: Literal[1] = 1
    model: str = ""
    thresholds: tuple[Threshold, ...] = ()

    def at(self, temperature: float) -> float:
        """Return the threshold for a request."""
        fits = [one for one in self.thresholds if temperature <= one.temperature]
        return min(fits, key=lambda one: one.temperature).logprob if fits else IMPROBABLE_LOGPROB
