"""Thresholds: below which log-probability a sampled token is improbable, and above which a mean is surprising, by temperature.

vLLM reports log-probabilities before it divides by the temperature, and the hotter a reply is sampled the more improbable tokens
stand in it: so one threshold cannot serve all. A row holds for requests up to its temperature; beyond the last row ours holds, which
has no limit of the mean.
"""

from dataclasses import dataclass
from typing import Literal

from tuner.alarm import IMPROBABLE_LOGPROB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What holds for one request; without `surprise` the mean is not watched."""

    logprob: float = IMPROBABLE_LOGPROB
    surprise: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Up to this temperature a token below `logprob` is improbable, and a mean above `surprise` (nats a token) is surprising.

    Chosen on so many healthy `replies`, of which `alarms` raise either. `low` and `high` are the 95 % interval of that rate (Clopper and Pearson); `loops` are replies that were left out, since they loop by
    themselves: they are no false alarms.
    """

    temperature: float
    logprob: float
    replies: int
    alarms: int
    loops: int = 0
    low: float = 0.0
    high: float = 1.0
    surprise: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be."""
        if self.temperature < 0:
            raise ValueError(f"the temperature is {self.temperature:g}, wanted at least 0")
        if self.logprob >= 0:
            raise ValueError(f"the log-probability is {self.logprob:g}, wanted one below 0")
        if self.surprise is not None and self.surprise <= 0:
            raise ValueError(f"the surprise is {self.surprise:g} nats, wanted more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What a calibration found for a model; without rows ours holds at every temperature."""

    schema: Literal[1] = 1
    model: str = ""
    thresholds: tuple[Threshold, ...] = ()

    def at(self, temperature: float) -> Limits:
        """Return what holds for a request."""
        fits = [one for one in self.thresholds if temperature <= one.temperature]
        if not fits:
            return Limits()
        row = min(fits, key=lambda one: one.temperature)
        return Limits(logprob=row.logprob, surprise=row.surprise)

    @property
    def lacking(self) -> str:
        """Where the mean is not watched for want of a limit, in words; '' where every row has one."""
        lacking = [f"{one.temperature:g}" for one in self.thresholds if one.surprise is None]
        if len(lacking) == len(self.thresholds):
            return "at any temperature"
        return f"at temperature {', '.join(lacking)}" if lacking else ""
