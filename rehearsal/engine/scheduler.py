"""The engine's loop: requests wait, are prefilled in chunks, and decode together, a step at a time, by the model.

Each step has a deadline that is reckoned from the deadline before, so that late wake-ups do not add up.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from rehearsal import model
from rehearsal.engine import ailment
from rehearsal.engine.tokens import BLOCK, blocks
from rehearsal.model import Noise, Speed

_BEFORE_FREEZING = 3  # requests: as many as the questions that a boot asks before it calls a line ready
_STILL_S = 0.05

Deliver = Callable[[str, int, str], bool]
"""Takes text, how many tokens it is and the finish reason ("" while it goes on); False when nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What is fixed when the line has booted."""

    seed: int
    number: int
    pace: float
    noise: Noise
    speed: Speed
    """This boot's own speed, levers included."""
    gemv_gb_s: float
    """The slowest rank's; it binds the line."""
    most_running: int
    most_batched: int
    kv_gib: float
    """What the KV cache takes of every rank."""
    kv_tokens: int
    caches_prefixes: bool
    speculates: bool
    freezes: bool = False
    """Whether a rank stops in a collective once the line has answered a few requests."""
    ails: str = ""
    """What goes wrong while it serves: `traits.ServeFault`."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """The counters that /metrics shows."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    drafts: int = 0
    accepted_by_position: list[int] = field(default_factory=lambda: [0] * (model.MOST_PER_STEP - 1))
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})


@dataclass(slots=True, kw_only=True)
class Work:
    """One request on its way."""

    pieces: list[str]
    """The prompt's tokens."""
    answer: Iterator[str]
    most: int
    """max_tokens."""
    mean: float
    """Tokens a step yields on average."""
    deliver: Deliver
    arrived: float
    cached: int = 0
    done: int = 0
    """Prompt tokens computed so far, cached ones not counted."""
    emitted: int = 0
    steps: int = 0
    rate: float = 1.0
    chance: Random = field(default_factory=Random)
    ahead: str | None = None
    """The answer's next token: known one ahead, so that the last one can be told as last."""

    @property
    def to_compute(self) -> int:
        """Prompt tokens that the cache does not hold."""
        return max(len(self.pieces) - self.cached, 1)


class Scheduler:
    """Runs a booted line's requests."""

    def __init__(self, boot: Boot) -> None:
        self.boot = boot
        self.tally = Tally()
        self.waiting: deque[Work] = deque()
        self.running: list[Work] = []
        self.is_dead = False
        self.is_frozen = False
        self.long_tokens = 0
        """Made so far beyond the first hundred of an answer."""
        self._step: list[Work] = []
        self._prefilled: list[tuple[Work, int]] = []
        self._seen: set[int] = set()
        self._count = 0
        self._called = asyncio.Event()

    @property
    def kv_usage(self) -> float:
        """Share of the KV pool in use."""
        used = sum(len(work.pieces) + work.emitted for work in self.running)
        return min(used / self.boot.kv_tokens, 1.0)

    @property
    def gemv_gb_s(self) -> float:
        """The slowest rank's figure now."""
        return ailment.gemv_gb_s(self.boot.ails, self.boot.gemv_gb_s, self.long_tokens)

    def add(self, work: Work) -> None:
        """Take in a request; its draws are fixed by its place in this boot."""
        self._count += 1
        self.is_frozen = self.boot.freezes and self._count > _BEFORE_FREEZING
        chance = model.draw(self.boot.seed, self.boot.number, f"request {self._count}")
        work.rate = math.exp(chance.gauss(0, self.boot.noise.within.prefill))
        work.mean *= math.exp(chance.gauss(0, self.boot.noise.within.decode))
        work.chance = chance
        work.ahead = next(work.answer, None)
        if not self.is_frozen:  # what is never computed is never counted
            self._look_up(work)
        self.waiting.append(work)
        self._called.set()

    def _look_up(self, work: Work) -> None:
        tally = self.tally
        tally.prompt_tokens += len(work.pieces)
        if not self.boot.caches_prefixes:
            return
        found = blocks(work.pieces)
        hits = next((index for index, one in enumerate(found) if one not in self._seen), len(found))
        # The last block is computed again, so that there is a token to sample from.
        work.cached = min(hits * BLOCK, (len(work.pieces) - 1) // BLOCK * BLOCK)
        work.cached = ailment.cached(self.boot.ails, work.cached, len(work.pieces))
        self._seen.update(found)
        tally.prefix_queries += len(work.pieces)
        tally.prefix_hits += work.cached
        tally.cached_tokens += work.cached

    async def run(self) -> None:
        """Serve for ever."""
        deadline = 0.0
        while True:
            if not self.waiting and not self.running:
                self._called.clear()
                await self._called.wait()
                deadline = 0.0
            if self.is_frozen:
                await self._stand_still()
            # The time to read a request belongs to its first step, so reading costs the line nothing.
            came = 0.0 if self.running else min(work.arrived for work in self.waiting)
            started = max(deadline, came)
            deadline = started + self._plan() / self.boot.pace
            await asyncio.sleep(max(deadline - time.monotonic(), 0))
            if self.is_dead:
                self._drop_all()
            self._finish_step()

    async def _stand_still(self) -> None:
        """Take requests in and get nowhere with them; only the end of a rank gets the line out of this."""
        while not self.is_dead:
            self._admit()
            await asyncio.sleep(_STILL_S)

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.boot.most_running:
            self.running.append(self.waiting.popleft())

    def _plan(self) -> float:
        """Admit what fits, give the step its prefill chunks, and return how long the step takes."""
        self._admit()
        decoding = [work for work in self.running if work.done >= work.to_compute]
        seconds = 0.0
        if decoding:
            seconds += model.step_s(len(decoding), self.gemv_gb_s, self.boot.speed)
        budget = self.boot.most_batched - len(decoding)
        self._step = decoding
        self._prefilled = []
        for work in self.running:
            if work.done < work.to_compute and budget > 0:
                upto = min(work.to_compute, work.done + budget)
                seconds += model.chunk_s(work.done, upto, self.boot.speed) / work.rate
                budget -= upto - work.done
                self._prefilled.append((work, upto))
        if any(work.done == 0 for work, _ in self._prefilled):
            seconds += model.PREFILL_SHORT_S / self.boot.speed.prefill
        return seconds

    def _finish_step(self) -> None:
        for work, upto in self._prefilled:
            work.done = upto
            if work.done >= work.to_compute:
                self._emit(work, 1)
        for work in self._step:
            work.steps += 1
            count = self._drawn(work)
            self._emit(work, count)
        self.running = [work for work in self.running if work.most > 0]

    def _drawn(self, work: Work) -> int:
        if not self.boot.speculates:
            return 1
        count = model.accepted(work.mean, work.steps, work.emitted - 1, work.chance)
        self.tally.drafts += 1
        for position in range(count - 1):
            self.tally.accepted_by_position[position] += 1
        return count

    def _emit(self, work: Work, count: int) -> None:
        """Send up to `count` tokens; a request that has ended gets `most` 0 and leaves after the step."""
        text: list[str] = []
        reason = ""
        while work.ahead is not None and len(text) < count and not reason:
            text.append(work.ahead)
            work.ahead = next(work.answer, None)
            work.emitted += 1
            if work.ahead is None:
                reason = "stop"
            elif work.emitted >= work.most:
                reason = "length"
        if work.ahead is None:
            reason = "stop"
        self.tally.generated_tokens += len(text)
        self.long_tokens += len(text) if work.emitted > ailment.LONG else 0
        heard = work.deliver("".join(text), len(text), reason)
        if reason or not heard:
            work.most = 0
            self.tally.finished[reason or "abort"] += 1

    def die(self) -> None:
        """Stop serving: a rank has gone. Requests under way end with a fault, as do later ones."""
        self.is_dead = True

    def _drop_all(self) -> None:
        for work in [*self.running, *self.waiting]:
            work.deliver("", 0, "fault")
            work.most = 0
        self.waiting.clear()
        self.running = []
        self._step = []
        self._prefilled = []
