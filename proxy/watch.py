"""Watch: all alarms over one reply, and how many of its tokens stand before the first sign of what they saw."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from proxy.depth import Depth, Depths
from proxy.said import Said
from proxy.thresholds import Limits
from tuner.alarm import Alarm, SurpriseWatch, TrigramWatch, Tripped

Reason = Literal["improbable", "surprise", "loop"]

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
    """Fed with what each event says; each alarm trips once. Of those that one event trips the first is told."""

    limits: Limits
    tokens: int = field(default=0, init=False)
    looped: bool = field(default=False, init=False)
    _logprobs: int = field(default=0, init=False)
    _depth: Depth = field(default_factory=Depth, init=False)
    _alarm: Alarm = field(init=False)
    _surprise: SurpriseWatch = field(init=False)
    _loop: TrigramWatch = field(default_factory=TrigramWatch, init=False)
    _marks: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MARKS), init=False)

    def __post_init__(self) -> None:
        """Make the alarms for the limits."""
        self._alarm = Alarm(logprob=self.limits.logprob)
        self._surprise = SurpriseWatch(limit=self.limits.surprise)

    def feed(self, said: Said) -> Sign | None:
        """Take what the next event says; return what it shows, once for each alarm."""
        self._marks.append((self._loop.words, self.tokens))
        # Tokens without log-probabilities are none for the alarms over them, which count those that they were fed.
        silent = self.tokens - self._logprobs
        signs = [sign for logprob in said.logprobs for sign in self._heard(logprob, silent)]
        self.tokens += said.tokens
        self._logprobs += len(said.logprobs)
        loop = self._looped(said)
        self.looped = self.looped or loop is not None
        return signs[0] if signs else loop

    @property
    def depths(self) -> Depths:
        """How near the reply came to the alarms over log-probabilities, whatever the limits."""
        return Depths(logprob=self._depth.depth, surprise=self._surprise.worst)

    @property
    def healthy(self) -> Depths | None:
        """The depths of a reply that does not loop; None of one that does."""
        return None if self.looped else self.depths

    def _heard(self, logprob: float, silent: int) -> Iterator[Sign]:
        """Feed the alarms over log-probabilities with the next token; give what they see."""
        self._depth.feed(logprob)
        if tripped := self._alarm.feed(logprob):
            yield _sign("improbable", tripped, tripped.since + silent)
        if tripped := self._surprise.feed(logprob):
            yield _sign("surprise", tripped, tripped.since + silent)

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
