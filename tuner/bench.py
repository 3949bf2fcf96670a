"""Bench: sends a workload, round by round, and brings every request home with the server's own counters.

Every stream has its own connection; the streams of a round are held at a barrier and released together. A bench with a
fault is void, so it ends with that round.
"""

import asyncio
import time
from collections.abc import Callable

from sparkctl.clock import Clock
from sparkctl.errors import Unclear
from tuner import client, counters
from tuner.client import Connection, Endpoint, Heard, Question
from tuner.counters import Counters
from tuner.request import Bench, Request
from tuner.stream import assemble
from tuner.workload import Order, Workload, digest, rounds

__all__ = ["Bench", "Endpoint", "Request", "run"]

_LOOKS, _LOOK_S = 20, 0.1
"""Looks at the server's counters after the last token, and the pause between them, in our own seconds."""


def run(
    endpoint: Endpoint, workload: Workload, *, run_tag: str, clock: Clock, report: Callable[[str], None]
) -> Bench:
    """Run the workload once and return every request.

    Args:
        endpoint: where to send.
        workload: what to send.
        run_tag: a text unique to this run; it stands at the front of each prompt.
        clock: the line's clock; all times in the result are its seconds.
        report: is told in a few words what is being sent.

    Raises:
        UsageFault: the address is not http(s)://HOST:PORT with a port from 1 to 65535.
        Unclear: nobody answers at the address.

    """
    return asyncio.run(_run(endpoint, workload, run_tag, clock, report))


async def _run(
    endpoint: Endpoint, workload: Workload, run_tag: str, clock: Clock, report: Callable[[str], None]
) -> Bench:
    most = max(cell.concurrency for cell in workload.cells)
    async with client.connections(endpoint, most) as connections:
        if fault := await connections[0].open():
            raise Unclear(
                f"{endpoint.url}: no answer: {fault}; wanted a served endpoint",
                hint="check the address, and whether the line is up: sparkctl status",
            )
        before = await _counters(connections[0])
        started, begin_s = clock.today(), clock.monotonic_s()
        cpu, wall = time.process_time(), time.perf_counter()
        requests: list[Request] = []
        for orders in rounds(workload, run_tag):
            report(_headline(orders, workload))
            heard = await _release(connections, orders, workload, clock)
            requests += [_request(*one, begin_s) for one in zip(orders, heard, strict=True)]
            if any(request.fault for request in requests):
                break
        seconds = clock.monotonic_s() - begin_s
        share = (time.process_time() - cpu) / (time.perf_counter() - wall)
        return Bench(
            workload=workload,
            workload_digest=digest(workload),
            run_tag=run_tag,
            started=started,
            seconds=seconds,
            client_cpu_share=share,
            requests=tuple(requests),
            before=before,
            after=await _settled(connections[0]) if before else None,
        )


async def _counters(connection: Connection) -> Counters | None:
    """Return the server's own counters; None from one that shows none."""
    page = await connection.page("/metrics")
    found = None if page is None else counters.read(page)
    return found if found and found.made is not None else None


async def _settled(connection: Connection) -> Counters | None:
    """Return the counters once no request runs: an engine counts the last step a moment after it has sent its tokens."""
    found = await _counters(connection)
    for _ in range(_LOOKS):
        await asyncio.sleep(_LOOK_S)
        last, found = found, await _counters(connection)
        if found is None or (found == last and not found.in_flight):
            break
    return found


async def _release(
    connections: tuple[Connection, ...], orders: tuple[Order, ...], workload: Workload, clock: Clock
) -> tuple[Heard, ...]:
    """Send the orders of a round at once, each on its own connection, and wait for all."""
    used = connections[: len(orders)]
    # A connection that cannot be opened here fails again below, where the fault becomes the request's.
    await asyncio.gather(*(one.open() for one in used))
    barrier = asyncio.Barrier(len(orders))
    return tuple(
        await asyncio.gather(
            *(
                one.stream(_question(order, workload), clock, workload.limit_s, barrier)
                for one, order in zip(used, orders, strict=True)
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
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cached_tokens=reply.cached_tokens,
        finish_reason=reply.finish_reason,
        text=reply.text,
        fault=heard.fault or reply.fault,
    )


def _headline(orders: tuple[Order, ...], workload: Workload) -> str:
    first = orders[0]
    of = {cell.name: cell.rounds for cell in workload.cells}.get(first.cell, len(workload.warm_up))
    return f"{first.cell}: round {first.round + 1} of {of}"
