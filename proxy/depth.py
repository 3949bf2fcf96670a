"""Depth: one number for each alarm over log-probabilities that tells at which thresholds a reply raises it.

The alarm on improbable tokens trips exactly when the reply lies deeper than the threshold: when some window holds enough tokens
below it. The alarm on the mean trips exactly when the highest mean of any window lies above the limit.
"""

from collections import deque
from dataclasses import dataclass, field

from tuner.alarm import IMPROBABLE_TOKENS, WINDOW_TOKENS

LOWEST = -9999.0
"""Depth of what is no number; vLLM writes it for a log-probability of minus infinity."""

SURE = -1.0
"""Log-probability above which no token is looked at: no threshold lies there. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depths:
    """How near a reply came to each alarm: `logprob` as `Depth` tells it; `surprise`, nats, 0 where no window was full."""

    logprob: float
    surprise: float


@dataclass(slots=True)
class Depth:
    """The depth of a reply, token by token: the lowest third-lowest log-probability of any window; 0 where there were too few."""

    depth: float = field(default=0.0, init=False)
    _seen: int = field(default=0, init=False)
    _low: deque[tuple[int, float]] = field(default_factory=deque, init=False)

    def feed(self, logprob: float) -> None:
        """Take the next token's log-probability; one that is no number is the deepest that can be."""
        at = self._seen
        self._seen += 1
        if logprob >= SURE:
            return
        self._low.append((at, logprob if LOWEST < logprob < SURE else LOWEST))
        while self._low[0][0] <= at - WINDOW_TOKENS:
            self._low.popleft()
        if len(self._low) >= IMPROBABLE_TOKENS:
            self.depth = min(self.depth, sorted(low for _, low in self._low)[IMPROBABLE_TOKENS - 1])
