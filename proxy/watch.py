"""Watch: both alarms over one reply, and how many of its tokens stand before the first sign of what they saw."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from proxy.depth import Depth
from proxy.said import Said
from tuner.alarm import Alarm, TrigramWatch, Tripped

Reason = Literal["improbable", "loop"]

_MARKS = 4096
"""Events whose place in words and tokens is remembered; a loop shows within some hundred. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What was seen, and the tokens before it: the reply's last clean point."""

    reason: Reason
    measured: str
    wanted: str
    clean_tokens: int


@dataclass(slots=True, kw_only=True)
class Watch:
    """Fed with what each event says; each alarm trips once."""

    threshold: float
    tokens: int = field(default=0, init=False)
    looped: bool = field(default=False, init=False)
    depth: Depth = field(default_factory=Depth, init=False)
    _logprobs: int = field(default=0, init=False)
    _alarm: Alarm = field(init=False)
    _loop: TrigramWatch = field(default_factory=TrigramWatch, init=False)
    _marks: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MARKS), init=False)

    def __post_init__(self) -> None:
        """Make the alarm for the threshold."""
        self._alarm = Alarm(logprob=self.threshold)

    def feed(self, said: Said) -> Sign | None:
        """Take what the next event says; return what it shows, once for each alarm."""
        self._marks.append((self._loop.words, self.tokens))
        tripped = [one for logprob in said.logprobs if (one := self._alarm.feed(logprob))]
        for logprob in said.logprobs:
            self.depth.feed(logprob)
        # Tokens without log-probabilities are none for the alarm, which counts those that it was fed.
        silent = self.tokens - self._logprobs
        self.tokens += said.tokens
        self._logprobs += len(said.logprobs)
        loop = self._looped(said)
        self.looped = self.looped or loop is not None
        return _sign("improbable", tripped[0], tripped[0].since + silent) if tripped else loop

    @property
    def healthy(self) -> float | None:
        """The depth of a reply that does not loop, see `proxy.depth`; None of one that does."""
        return None if self.looped else self.depth.depth

    def _looped(self, said: Said) -> Sign | None:
        for piece in (said.thought, said.text):
            if piece and (looped := self._loop.feed(piece)):
                return _sign("loop", looped, self._before(looped.since))
        return None

    def _before(self, words: int) -> int:
        """Return the tokens that hold no more than so many words; a word is counted when the next has begun."""
        return next((tokens for at, tokens in reversed(self._marks) if at < words), 0)


def _sign(reason: Reason, tripped: Tripped, clean: int) -> Sign:
    return Sign(reason=reason, measured=tripped.measured, wanted=tripped.wanted, clean_tokens=clean)
