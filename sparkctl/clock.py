"""The clock that launch, bench and climb are given.

`PacedClock` at pace 1 is the wall clock; at a higher pace it runs a line's seconds faster than ours: under `--rehearsal` a practice
line serves at a pace, and whoever measures it divides waits and multiplies durations by the same number. Nothing
else in the product knows about a pace.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Seconds of the line being watched."""

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary start, never going back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for that many of the line's seconds."""
        ...

    def real_s(self, seconds: float) -> float:
        """Convert seconds of the line to seconds of ours, for time limits of foreign calls."""
        ...

    def today(self) -> str:
        """Return the wall time as ISO 8601 in UTC with whole seconds; never scaled."""
        ...


@dataclass(frozen=True, slots=True)
class PacedClock:
    """A clock whose seconds pass `pace` times as fast as ours; a pace of 1 is the wall clock."""

    pace: float = 1.0

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary start, never going back."""
        return time.monotonic() * self.pace

    def sleep(self, seconds: float) -> None:
        """Wait for that many of the line's seconds."""
        time.sleep(seconds / self.pace)

    def real_s(self, seconds: float) -> float:
        """Convert seconds of the line to seconds of ours."""
        return seconds / self.pace

    def today(self) -> str:
        """Return the wall time as ISO 8601 in UTC with whole seconds; never scaled."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def system_clock() -> PacedClock:
    """Return the wall clock."""
    return PacedClock()
