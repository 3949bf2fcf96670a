"""Bench: sends a workload, part by part, and brings every request home with what was seen of the line around each cell.

First a warm-up until replies agree, then a burst at full concurrency, then the cells, each between two brackets. The streams of
a round are held at a barrier and released together, each on its own connection. A bench with a fault is void, so it ends with
that round.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from launcher.vitals import Vitals
from sparkctl.clock import Clock
from sparkctl.errors import Unclear
from tuner import client, counters, orders, rates, warming, witness
from tuner.bracket import Bracket
from tuner.client import Connection, Endpoint, Heard, Question
from tuner.orders import Order
from tuner.request import Bench, Request
from tuner.stream import assemble
from tuner.workload import BURST, SENTINEL, Cell, Workload, digest

__all__ = ["Bench", "Endpoint", "Request", "run"]

Look = Callable[[], tuple[Vitals, ...]]
"""Reads how the nodes stand; takes as long as it takes, and is called while the sentinel decodes."""


def run(  # noqa: PLR0913 - two are named
    endpoint: Endpoint,
    workload: Workload,
    *,
    run_tag: str,
    clock: Clock,
    report: Callable[[str], None],
    look: Look = tuple,
) -> Bench:
    """Run the workload once and return every request.

    Args:
        endpoint: where to send.
        workload: what to send.
        run_tag: a text unique to this run; it stands at the front of each prompt.
        clock: the line's clock; all times in the result are its seconds.
        report: is told in a few words what is being sent.
        look: reads the nodes' vitals for the brackets; without it they have none.

    Raises:
        UsageFault: the address is not http(s)://HOST:PORT with a port from 1 to 65535.
        Unclear: nobody answers at the address.

    """
    return asyncio.run(_run(endpoint, workload, run_tag, clock, report, look))


async def _run(  # noqa: PLR0913, PLR0917 - as run
    endpoint: Endpoint,
    workload: Workload,
    run_tag: str,
    clock: Clock,
    report: Callable[[str], None],
    look: Look,
) -> Bench:
    most = max(cell.concurrency for cell in workload.cells)
    async with client.connections(endpoint, most) as connections:
        if fault := await connections[0].open():
            raise Unclear(
                f"{endpoint.url}: no answer: {fault}; wanted a served endpoint",
                hint="check the address, and whether the line is up: sparkctl status",
            )
        before, started, begin_s = await witness.now(connections[0]), clock.today(), clock.monotonic_s()
        course = _Course(
            connections=connections,
            workload=workload,
            run_tag=run_tag,
            clock=clock,
            report=report,
            begin_s=begin_s,
        )
        await course.run(look)
        return Bench(
            workload=workload,
            workload_digest=digest(workload),
            run_tag=run_tag,
            started=started,
            seconds=clock.monotonic_s() - begin_s,
            client_cpu_share=course.cpu_s / course.wall_s if course.wall_s else 0.0,
            requests=tuple(course.requests),
            before=before,
            after=await witness.settled(connections[0]) if before else None,
            brackets=tuple(course.brackets),
        )


@dataclass(slots=True, kw_only=True)
class _Course:
    """A workload on its way: what was sent so far, and what was seen of the line."""

    connections: tuple[Connection, ...]
    workload: Workload
    run_tag: str
    clock: Clock
    report: Callable[[str], None]
    begin_s: float
    requests: list[Request] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    cpu_s: float = 0.0
    wall_s: float = 0.0

    async def run(self, look: Look) -> None:
        """Send all of it, up to the first fault."""
        await self._warm_up()
        await self._round(orders.burst(self.workload, self.run_tag), BURST)
        await self._bracket(0, look)
        for number, cell in enumerate(self.workload.cells, 1):
            if not self._is_sound():
                return
            await self._cell(cell)
            await self._bracket(number, look)

    def _is_sound(self) -> bool:
        return not any(one.fault for one in self.requests)

    async def _warm_up(self) -> None:
        """Ask until the last replies agree, or one has no rate: then nothing that follows would have one."""
        seen: list[float] = []
        rule = self.workload.warm_up
        for order in orders.warm_up(self.workload, self.run_tag):
            (request,) = await self._round((order,), f"warm-up {order.round + 1}")
            rate = rates.decoded(request)
            if rate is None or rule is None:
                return
            seen.append(rate)
            if warming.is_warm(seen, rule):
                return

    async def _cell(self, cell: Cell) -> None:
        for number, together in enumerate(orders.rounds(self.workload, cell, self.run_tag), 1):
            await self._round(together, f"{cell.name}: round {number} of {cell.rounds}")
            if not self._is_sound():
                return

    async def _bracket(self, number: int, look: Look) -> None:
        """Ask the sentinel and look at the nodes meanwhile, then read the server's counters."""
        if not self._is_sound():
            return
        asked = orders.sentinel(self.workload, number, self.run_tag)
        before = await witness.settled(self.connections[0])
        nodes, sent = await asyncio.gather(asyncio.to_thread(look), self._round(asked, SENTINEL))
        after = await witness.settled(self.connections[0]) if before and asked else before
        grown = counters.growth(before, after) if before and after else None
        self.brackets.append(
            Bracket(
                at_s=self.clock.monotonic_s() - self.begin_s,
                step_s=rates.step_s(sent[0], grown) if sent else None,
                before=before,
                after=after,
                nodes=nodes,
            )
        )

    async def _round(self, together: tuple[Order, ...], said: str) -> Sequence[Request]:
        """Send orders at once and keep what came; the client's own time is counted meanwhile."""
        if not together:
            return ()
        self.report(said)
        used = self.connections[: len(together)]
        # A connection that cannot be opened here fails again below, where the fault becomes the request's.
        await asyncio.gather(*(one.open() for one in used))
        cpu, wall = time.process_time(), time.perf_counter()
        heard = await _released(used, together, self.workload, self.clock)
        if said != SENTINEL:  # beside it the nodes are looked at, which is not the client's work
            self.cpu_s += time.process_time() - cpu
            self.wall_s += time.perf_counter() - wall
        came = [_request(*one, self.begin_s) for one in zip(together, heard, strict=True)]
        self.requests += came
        return came


async def _released(
    connections: Sequence[Connection], together: Sequence[Order], workload: Workload, clock: Clock
) -> tuple[Heard, ...]:
    barrier = asyncio.Barrier(len(together))
    return tuple(
        await asyncio.gather(
            *(
                one.stream(_question(order, workload), clock, workload.limit_s, barrier)
                for one, order in zip(connections, together, strict=True)
            )
        )
    )


def _question(order: Order, workload: Workload) -> Question:
    return Question(
        messages=({"role": "user", "content": order.text},),
        max_tokens=order.max_tokens,
        body=workload.body,
    )


def _request(order: Order, heard: Heard, begin_s: float) -> Request:
    reply = assemble(heard.arrivals)
    return Request(
        cell=order.cell,
        round=order.round,
        stream=order.stream,
        prompt=order.prompt,
        tag=order.tag,
        sent_s=heard.at_s - begin_s,
        ttft_s=reply.ttft_s,
        total_s=reply.total_s,
        first_tokens=reply.first_tokens,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cached_tokens=reply.cached_tokens,
        finish_reason=reply.finish_reason,
        text=reply.text,
        fault=heard.fault or reply.fault,
    )
