"""Replay: keeps so many sessions live, sends each call when what it waits for has ended, and brings every call home.

The loop is closed: a session that has ended makes room for the next. Waits count from the end of an answer to the next start, and no
longer than one cap. A level with a fault is void, so no call begins after one; those in flight come to their end.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sparkctl.clock import Clock
from tuner import client, witness
from tuner.agents.calibration import answering
from tuner.agents.exchange import End, Exchange, Level, SessionRun
from tuner.agents.filler import Voice
from tuner.agents.session import Copy, Load, Turn, copies, prompt, width
from tuner.client import Connection, Endpoint, Heard, Question
from tuner.stream import assemble

Report = Callable[[str], None]
"""Is told in a few words how far a level is."""

_LEAD_S = 0.2
"""Before a call its connection is renewed, in our own seconds: vLLM drops one that idles for 5 s, and a POST on it would fail."""


def run(  # noqa: PLR0913 - all named
    endpoint: Endpoint,
    load: Load,
    *,
    live: int,
    idle_cap_s: float,
    most_s: float | None,
    voice: Voice | None,
    run_tag: str,
    clock: Clock,
    report: Report,
) -> Level:
    """Run one level and return every call.

    Args:
        endpoint: where to send.
        load: what to send.
        live: how many sessions are under way at a time.
        idle_cap_s: no wait is longer, in the line's seconds.
        most_s: no call begins after so many of the line's seconds; None: every session comes to its end.
        voice: the words of filler; None for a load with text.
        run_tag: a text unique to this run; every session's head follows from it.
        clock: the line's clock; all times in the result are its seconds.
        report: is told in a few words how far it is.

    Raises:
        UsageFault: the address is not http(s)://HOST:PORT with a port from 1 to 65535.
        Unclear: nobody answers at the address.

    """
    bare = Level(
        load=load,
        live=live,
        run_tag=run_tag,
        started=clock.today(),
        seconds=0.0,
        idle_cap_s=idle_cap_s,
        most_s=most_s,
        characters_a_token=voice.characters_a_token if voice else None,
        client_cpu_share=0.0,
        exchanges=(),
        sessions=(),
    )
    return asyncio.run(_run(endpoint, bare, voice, clock, report))


async def _run(endpoint: Endpoint, level: Level, voice: Voice | None, clock: Clock, report: Report) -> Level:
    most = level.live * max(width(one) for one in level.load.sessions)
    async with client.connections(endpoint, most + 1) as (first, *others):
        await answering(endpoint, first)
        before = await witness.now(first)
        loop = _Loop(level, voice, clock, report, others)
        cpu, wall = time.process_time(), time.perf_counter()
        await loop.run()
        seconds = loop.now_s()
        share = (time.process_time() - cpu) / (time.perf_counter() - wall)
        return replace(
            level,
            seconds=seconds,
            client_cpu_share=share,
            exchanges=tuple(loop.exchanges),
            sessions=tuple(loop.sessions),
            before=before,
            after=await witness.settled(first) if before else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """One copy of a session under way: when each of its calls ended (None: not made), and the model's own answers."""

    copy: Copy
    began_s: float
    ends: tuple[asyncio.Future[float | None], ...]
    answers: dict[int, str] = field(default_factory=dict)


class _Loop:
    """One level under way."""

    def __init__(
        self, level: Level, voice: Voice | None, clock: Clock, report: Report, idle: list[Connection]
    ) -> None:
        self._level = level
        self._load = level.load
        self._voice = voice
        self._clock = clock
        self._report = report
        self._idle = idle
        self._lead_s = _LEAD_S / clock.real_s(1.0)
        self._waiting = deque(copies(level.load, level.live, level.run_tag))
        self._number = len(self._waiting)
        self._begin_s = clock.monotonic_s()
        self._stopped = False
        self.exchanges: list[Exchange] = []
        self.sessions: list[SessionRun] = []

    def now_s(self) -> float:
        """Seconds of the line since the level began."""
        return self._clock.monotonic_s() - self._begin_s

    async def run(self) -> None:
        """Keep the sessions live until none waits."""
        self._begin_s = self._clock.monotonic_s()
        await asyncio.gather(*(self._lane() for _ in range(self._level.live)))

    def _is_over(self, at_s: float = 0.0) -> bool:
        """Whether no call begins any more, now or at a time to come."""
        most_s = self._level.most_s
        return self._stopped or (most_s is not None and max(at_s, self.now_s()) >= most_s)

    async def _lane(self) -> None:
        while self._waiting and not self._is_over():
            self._report(
                f"{self._level.live} live: {len(self.sessions)} of {self._number} sessions over, "
                f"{len(self.exchanges)} calls"
            )
            self.sessions.append(await self._session(self._waiting.popleft()))

    async def _session(self, copy: Copy) -> SessionRun:
        turns = copy.session.turns
        futures = asyncio.get_running_loop().create_future
        tree = _Tree(copy=copy, began_s=self.now_s(), ends=tuple(futures() for _ in turns))
        made = await asyncio.gather(*(self._turn(tree, turn) for turn in turns))
        failed = any(one is not None and one.fault for one in made)
        end: End = "failed" if failed else "cut" if None in made else "ended"
        return SessionRun(
            copy=copy.number,
            session=copy.session.id,
            began_s=tree.began_s,
            ended_s=self.now_s(),
            end=end,
        )

    async def _turn(self, tree: _Tree, turn: Turn) -> Exchange | None:
        """Make one call when it is due; None when something before it was not made or the level is over."""
        ends = [await tree.ends[one] for one in turn.after]
        made: Exchange | None = None
        if None not in ends:
            since_s = max((one for one in ends if one is not None), default=tree.began_s)
            made = await self._due(tree, turn, since_s + min(turn.wait_s, self._level.idle_cap_s))
        tree.ends[turn.i].set_result(made.ended_s if made and not made.fault else None)
        return made

    async def _due(self, tree: _Tree, turn: Turn, due_s: float) -> Exchange | None:
        if self._is_over(due_s):
            return None
        question = self._question(tree, turn)
        await self._until(due_s - self._lead_s)
        if self._is_over():
            return None
        connection = self._idle.pop()
        # A connection that cannot be opened here fails again below, where the fault becomes the call's.
        await connection.open()
        await self._until(due_s)
        heard = await connection.stream(question, self._clock, self._load.limit_s)
        made = self._exchange(tree, turn, due_s, heard)
        self._idle.append(connection)
        self.exchanges.append(made)
        self._stopped = self._stopped or bool(made.fault)
        return made

    async def _until(self, at_s: float) -> None:
        while (left_s := at_s - self.now_s()) > 0:  # noqa: ASYNC110 - a time is waited for, not an event
            await asyncio.sleep(self._clock.real_s(left_s))

    def _question(self, tree: _Tree, turn: Turn) -> Question:
        return Question(
            messages=prompt(tree.copy, turn.i, self._load, tree.answers, self._voice),
            max_tokens=turn.max_tokens,
            body=self._load.body,
        )

    def _exchange(self, tree: _Tree, turn: Turn, due_s: float, heard: Heard) -> Exchange:
        ended_s = self.now_s()
        reply = assemble(heard.arrivals)
        tree.answers[turn.i] = reply.content
        return Exchange(
            copy=tree.copy.number,
            session=tree.copy.session.id,
            i=turn.i,
            agent=turn.agent,
            due_s=due_s,
            sent_s=heard.at_s - self._begin_s,
            ended_s=ended_s,
            ttft_s=reply.ttft_s,
            total_s=reply.total_s,
            max_tokens=turn.max_tokens,
            planned_tokens=turn.prompt_tokens,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cached_tokens=reply.cached_tokens,
            finish_reason=reply.finish_reason,
            text=reply.text,
            fault=heard.fault or reply.fault,
        )
