"""Alarm: says while a reply still streams that it is about to collapse, or that it already loops.

Three watches, each fed as tokens come and each a value that trips once. `Alarm` counts very improbable tokens: they cluster
hundreds of tokens before a long reply turns into salad. `SurpriseWatch` takes the mean over many fairly improbable ones.
`TrigramWatch` counts word triples that come again: it needs no log-probabilities and sees the loop itself. None reads a clock or
keeps more than its window; a proxy rolls back or reads in full on what they say.
"""

import math
from collections import Counter, deque
from dataclasses import dataclass, field

from tuner.audit.words import found

IMPROBABLE_TOKENS = 3
WINDOW_TOKENS = 128
"""The rule that the report on sparse reads of experts (DeepSeek on B300s) gives: 3 improbable tokens within 128 caught 168 of
186 replies that collapsed, a median of 891 tokens before, and fired on 0.70 % of 105,039 that did not (reported).
"""

IMPROBABLE_LOGPROB = -11.5
"""Natural logarithm of the probability below which a token is improbable: 0.001 %. Ours: the report gives none. Calibrate it
on whole replies of the line until the alarm fires on fewer than 1 % of them.
"""

SURPRISE_WINDOW = 64
"""Tokens of the mean. Of the windows that were tried on a mini model (benchmarks/mini_moe_alarms.py) it saw most collapses."""

MOST_SURPRISE = 32.0
"""Nats that one token counts for at most, so that none of them, and no value that is no number, carries a mean by itself; ours."""

TRIGRAM_WINDOW = 96
TRIGRAM_TIMES = 8
TRIGRAM_SHARE = 0.5
"""Words that the watch remembers, how often one word triple must stand among them, and which share of their triples must have
stood there before. The check is that of "An elephant through a straw", which gives no numbers; these are ours, and let
tables, code and refrains pass.
"""


LONGEST_WORD = 4096
"""Letters of one word; ours: longer than any key, and what bounds the watch's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tripped:
    """What a watch saw: `at` counts tokens for the alarm and words for the watch, from the reply's start.

    `since` tokens or words stand before the first sign of what it saw: before them the reply is clean.
    """

    at: int
    since: int
    measured: str
    wanted: str


@dataclass(slots=True)
class Alarm:
    """Trips when improbable tokens cluster."""

    logprob: float = IMPROBABLE_LOGPROB
    tokens: int = IMPROBABLE_TOKENS
    window: int = WINDOW_TOKENS
    _seen: int = field(default=0, init=False)
    _improbable: deque[int] = field(default_factory=deque, init=False)
    _tripped: Tripped | None = field(default=None, init=False)

    def feed(self, logprob: float) -> Tripped | None:
        """Take the next token's log-probability (natural, at most 0); return the alarm once, when it trips.

        A value that is no number counts as improbable: logits that are none are how some collapses begin.
        """
        at = self._seen
        self._seen += 1
        if logprob >= self.logprob:
            return None
        self._improbable.append(at)
        while self._improbable[0] <= at - self.window:
            self._improbable.popleft()
        if self._tripped or len(self._improbable) < self.tokens:
            return None
        self._tripped = Tripped(
            at=at,
            since=self._improbable[0],
            measured=f"{len(self._improbable)} tokens below a log-probability of {self.logprob:g} within {self.window}",
            wanted=f"fewer than {self.tokens}",
        )
        return self._tripped


@dataclass(slots=True)
class SurpriseWatch:
    """Trips when the mean surprise, the negative log-probability, of the last tokens is above a limit; only over a full window.

    `limit` is in nats a token; without one the watch is off and only keeps `worst`, the highest mean so far: 0 before the first.
    """

    limit: float | None = None
    worst: float = field(default=0.0, init=False)
    _seen: int = field(default=0, init=False)
    _last: deque[float] = field(default_factory=lambda: deque(maxlen=SURPRISE_WINDOW), init=False)
    _tripped: Tripped | None = field(default=None, init=False)

    def feed(self, logprob: float) -> Tripped | None:
        """Take the next token's log-probability (natural, at most 0); return the alarm once, when it trips."""
        self._seen += 1
        # What is no number compares as false, and so counts as the most.
        self._last.append(-logprob if logprob > -MOST_SURPRISE else MOST_SURPRISE)
        if len(self._last) < SURPRISE_WINDOW:
            return None
        mean = math.fsum(self._last) / SURPRISE_WINDOW
        self.worst = max(self.worst, mean)
        if self.limit is None or mean <= self.limit or self._tripped:
            return None
        limit = self.limit
        first = next(place for place, one in enumerate(self._last) if one > limit)
        self._tripped = Tripped(
            at=self._seen - 1,
            since=self._seen - SURPRISE_WINDOW + first,
            measured=f"a mean surprise of {mean:.3g} nats over {SURPRISE_WINDOW} tokens",
            wanted=f"at most {limit:.3g}",
        )
        return self._tripped


@dataclass(slots=True)
class TrigramWatch:
    """Trips when a window of words is mostly word triples that stood in it before."""

    window: int = TRIGRAM_WINDOW
    times: int = TRIGRAM_TIMES
    share: float = TRIGRAM_SHARE
    _rest: str = field(default="", init=False)
    _words: int = field(default=0, init=False)
    _last: deque[str] = field(default_factory=lambda: deque(maxlen=3), init=False)
    _grams: deque[tuple[str, ...]] = field(default_factory=deque, init=False)
    _counts: Counter[tuple[str, ...]] = field(default_factory=Counter, init=False)
    _tripped: Tripped | None = field(default=None, init=False)

    @property
    def words(self) -> int:
        """How many words were taken; the last one of the text fed so far is not among them."""
        return self._words

    def feed(self, piece: str) -> Tripped | None:
        """Take the next piece of text, of any size; return the alarm once, when it trips.

        How the text is cut into pieces makes no difference: a word counts when the next one has begun.
        """
        words, places = found(self._rest + piece)
        if not words:
            self._rest = ""
            return None
        # Of what stands behind the last word only a hyphen with the next letter could still belong to it.
        self._rest = (self._rest + piece)[places[-1] : places[-1] + len(words[-1]) + 2]
        for word in words[:-1]:
            if tripped := self._take(word):
                return tripped
        if len(words[-1]) > LONGEST_WORD:
            self._rest = ""
            return self._take(words[-1])
        return None

    def _take(self, word: str) -> Tripped | None:
        self._words += 1
        if len(word) > LONGEST_WORD:
            return self._trip(self._words - 1, "a word without end", f"at most {LONGEST_WORD} letters")
        self._last.append(word)
        if len(self._last) < 3:
            return None
        gram = tuple(self._last)
        self._grams.append(gram)
        self._counts[gram] += 1
        if len(self._grams) > self.window:
            old = self._grams.popleft()
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        repeated = len(self._grams) - len(self._counts)
        if self._counts[gram] < self.times or repeated < self.share * self.window:
            return None
        if all(part.isdigit() for part in gram):
            return None
        times = f"{self._counts[gram]} times among {len(self._grams)} words"
        first = next(place for place, one in enumerate(self._grams) if self._counts[one] > 1)
        since = self._words - 2 - (len(self._grams) - first)
        return self._trip(since, f"{' '.join(gram)!r} {times}", f"fewer than {self.times} times")

    def _trip(self, since: int, measured: str, wanted: str) -> Tripped | None:
        if self._tripped:
            return None
        self._tripped = Tripped(at=self._words, since=since, measured=measured, wanted=wanted)
        return self._tripped
