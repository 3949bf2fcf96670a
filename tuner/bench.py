"""Sends a workload to a served endpoint and takes the times: the one place where the tuner meets the network.

Every stream has its own connection, opened before the clock starts; the streams of a round are held at a barrier and
released together. While requests are in flight only reads are stamped; they are taken apart after the round. What
goes wrong with a request is a value (`Request.fault`); a bench with a fault is void, so it ends with that round.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx

from sparkctl import key
from sparkctl.clock import Clock
from sparkctl.errors import Unclear, UsageFault
from tuner import counters
from tuner.counters import Counters
from tuner.request import Bench, Request
from tuner.stream import Arrival, Reply, assemble, said
from tuner.workload import Order, Workload, digest, rounds

__all__ = ["Bench", "Endpoint", "Request", "run"]

_LOOKS, _LOOK_S = 20, 0.1
"""Looks at the server's counters after the last token, and the pause between them, in our own seconds."""

_CONNECT_S = 10.0
"""Time to open a connection, in our own seconds: a TCP handshake on the management network takes milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is served: `url` like `http://10.0.0.1:8000` (a trailing `/v1` is dropped) and the served name."""

    url: str
    model: str
    key_file: str | None = None
    """File with the key that the endpoint wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    """One request ready to go on its own open connection."""

    order: Order
    client: httpx.AsyncClient
    post: httpx.Request


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """One request as it went: seconds on the clock at sending, the reads, and what broke off ('' if nothing)."""

    order: Order
    at_s: float
    arrivals: tuple[Arrival, ...]
    fault: str


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
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(client)
            for client in _clients(endpoint, max(cell.concurrency for cell in workload.cells))
        ]
        if fault := await _open(clients[0]):
            raise Unclear(
                f"{endpoint.url}: no answer: {fault}; wanted a served endpoint",
                hint="check the address, and whether the line is up: sparkctl status",
            )
        before = await _counters(clients[0])
        started, begin_s = clock.today(), clock.monotonic_s()
        cpu, wall = time.process_time(), time.perf_counter()
        requests: list[Request] = []
        for orders in rounds(workload, run_tag):
            report(_headline(orders, workload))
            sent = await _release(clients, orders, endpoint.model, workload, clock)
            requests += [_request(one, begin_s) for one in sent]
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
            after=await _settled(clients[0]) if before else None,
        )


def _clients(endpoint: Endpoint, number: int) -> list[httpx.AsyncClient]:
    """Make one client a stream, each with a single connection; proxies of the environment would be measured too."""
    base = _address(endpoint.url)
    context = ssl.create_default_context()
    return [
        httpx.AsyncClient(
            base_url=base,
            verify=context,
            trust_env=False,
            timeout=httpx.Timeout(None, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            headers={"accept-encoding": "identity", **key.header(endpoint.key_file)},
        )
        for _ in range(number)
    ]


def _address(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url.rstrip("/").removesuffix("/v1"))
        # Decoding a host may fail as late as here; IDNA's error is a ValueError.
        wrong = _wrong_part(found)
    except (httpx.InvalidURL, ValueError) as fault:
        wrong = str(fault)
    if wrong:
        raise UsageFault(
            f"{url}: not an address: {wrong}", hint="write http://HOST:PORT, as http://10.0.0.1:8000"
        )
    return found


def _wrong_part(url: httpx.URL) -> str:
    if url.scheme not in {"http", "https"}:
        return f"the scheme is {url.scheme or 'missing'}, wanted http or https"
    if not url.host:
        return "no host"
    if url.port is not None and not 1 <= url.port <= 65535:
        return f"the port is {url.port}, wanted 1 to 65535"
    return "a query or fragment cannot go before a path" if url.query or url.fragment else ""


async def _open(client: httpx.AsyncClient) -> str:
    """Open the client's connection, or renew it if the server closed it; return what went wrong or nothing."""
    try:
        await client.get("/v1/models", timeout=_CONNECT_S)
    except httpx.HTTPError as fault:
        return _told(fault)
    return ""


async def _counters(client: httpx.AsyncClient) -> Counters | None:
    """Return the server's own counters; None from one that shows none."""
    try:
        page = await client.get("/metrics", timeout=_CONNECT_S)
    except httpx.HTTPError:
        return None
    found = counters.read(page.text) if page.status_code == httpx.codes.OK else None
    return found if found and found.made is not None else None


async def _settled(client: httpx.AsyncClient) -> Counters | None:
    """Return the counters once no request runs: an engine counts the last step a moment after it has sent its tokens."""
    found = await _counters(client)
    for _ in range(_LOOKS):
        await asyncio.sleep(_LOOK_S)
        last, found = found, await _counters(client)
        if found is None or (found == last and not found.in_flight):
            break
    return found


async def _release(
    clients: list[httpx.AsyncClient], orders: tuple[Order, ...], model: str, workload: Workload, clock: Clock
) -> list[_Sent]:
    """Send the orders of a round at once, each on its own connection, and wait for all."""
    used = clients[: len(orders)]
    # A connection that cannot be opened here fails again below, where the fault becomes the request's.
    await asyncio.gather(*(_open(client) for client in used))
    streams = [
        _Stream(order=order, client=client, post=_post(client, order, model, workload))
        for client, order in zip(used, orders, strict=True)
    ]
    barrier = asyncio.Barrier(len(streams))
    return list(await asyncio.gather(*(_send(one, barrier, clock, workload.limit_s) for one in streams)))


def _post(client: httpx.AsyncClient, order: Order, model: str, workload: Workload) -> httpx.Request:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": order.text}],
        "max_tokens": order.max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **workload.body,
    }
    return client.build_request(
        "POST",
        "/v1/chat/completions",
        content=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )


async def _send(stream: _Stream, barrier: asyncio.Barrier, clock: Clock, limit_s: float) -> _Sent:
    arrivals: list[Arrival] = []
    await barrier.wait()
    at_s = clock.monotonic_s()
    try:
        async with asyncio.timeout(clock.real_s(limit_s)):
            fault = await _collect(stream, arrivals, clock, at_s)
    except TimeoutError:
        fault = f"not finished within the time limit of {limit_s:g} s"
    except httpx.HTTPError as broken:
        fault = _told(broken)
    return _Sent(order=stream.order, at_s=at_s, arrivals=tuple(arrivals), fault=fault)


async def _collect(stream: _Stream, arrivals: list[Arrival], clock: Clock, at_s: float) -> str:
    """Stamp every read as it comes; return the fault of an answer that is none."""
    response = await stream.client.send(stream.post, stream=True)
    try:
        if response.status_code != httpx.codes.OK:
            return f"HTTP {response.status_code}: {_body_text(await response.aread())}"
        async for data in response.aiter_raw():
            arrivals.append(Arrival(at_s=clock.monotonic_s() - at_s, data=data))  # noqa: PERF401 - what came before a fault is kept
    finally:
        await response.aclose()
    return ""


def _request(sent: _Sent, begin_s: float) -> Request:
    reply: Reply = assemble(sent.arrivals)
    order = sent.order
    return Request(
        cell=order.cell,
        round=order.round,
        stream=order.stream,
        prompt=order.prompt,
        tag=order.tag,
        sent_s=sent.at_s - begin_s,
        ttft_s=reply.ttft_s,
        total_s=reply.total_s,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        cached_tokens=reply.cached_tokens,
        finish_reason=reply.finish_reason,
        text=reply.text,
        fault=sent.fault or reply.fault,
    )


def _body_text(body: bytes) -> str:
    text = body.decode("utf-8", "replace").strip()
    try:
        return said(json.loads(text))
    except json.JSONDecodeError:
        return text[:200]


def _told(fault: httpx.HTTPError) -> str:
    return f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__


def _headline(orders: tuple[Order, ...], workload: Workload) -> str:
    first = orders[0]
    of = {cell.name: cell.rounds for cell in workload.cells}.get(first.cell, len(workload.warm_up))
    return f"{first.cell}: round {first.round + 1} of {of}"
