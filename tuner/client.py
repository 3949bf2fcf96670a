"""Client: asks a served endpoint and stamps what comes back. The one place where the tuner meets the network.

A connection is opened before the clock starts and carries one request at a time. While requests are in flight reads are only
stamped; they are taken apart afterwards (`tuner.stream`). What goes wrong with a request is a value, never an exception.
aiohttp reads here and httpx elsewhere: see docs/decisions/0008-bench.md.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import aiohttp
import httpx

from sparkctl import key
from sparkctl.clock import Clock
from sparkctl.errors import UsageFault
from tuner.stream import Arrival, said
from tuner.workload import Plain

CONNECT_S = 10.0
"""Time to open a connection or to read a page, in our own seconds: a handshake on the management network takes milliseconds."""

_READ_BYTES = 1 << 20
"""What a connection holds before it stops reading: more than any step of an engine sends."""

_CHAT = "v1/chat/completions"
_PAGE = aiohttp.ClientTimeout(total=CONNECT_S)
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is served: `url` like `http://10.0.0.1:8000` (a trailing `/v1` is dropped) and the served name."""

    url: str
    model: str
    key_file: str | None = None
    """File with the key that the endpoint wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One chat completion to be streamed: greedy, counted in every event by a server that can (vLLM), by all at the end.

    `body` joins the request's JSON.
    """

    messages: tuple[Mapping[str, Plain], ...]
    max_tokens: int
    body: Mapping[str, Plain] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One answer as it came: seconds on the clock at sending, the reads, and what broke off ('' if nothing)."""

    at_s: float
    arrivals: tuple[Arrival, ...]
    fault: str


class Connection:
    """One connection to the endpoint, opened anew when the server closed it."""

    def __init__(self, http: aiohttp.ClientSession, model: str) -> None:
        self._http = http
        self._model = model

    async def open(self) -> str:
        """Open the connection or renew it; return what went wrong, or nothing."""
        try:
            async with self._http.get("v1/models", timeout=_PAGE) as answer:
                await answer.read()
        except (aiohttp.ClientError, OSError) as fault:
            return _told(fault)
        return ""

    async def page(self, path: str) -> str | None:
        """Return a page of the server, None where it shows none."""
        try:
            async with self._http.get(path.lstrip("/"), timeout=_PAGE) as answer:
                return await answer.text("utf-8", "replace") if answer.ok else None
        except (aiohttp.ClientError, OSError):
            return None

    async def stream(
        self, question: Question, clock: Clock, limit_s: float, barrier: asyncio.Barrier | None = None
    ) -> Heard:
        """Ask, once everybody stands at the barrier, and stamp every read; `limit_s` are the line's seconds."""
        arrivals: list[Arrival] = []
        body = json.dumps(self._streamed(question)).encode()
        if barrier:
            await barrier.wait()
        at_s = clock.monotonic_s()
        try:
            async with asyncio.timeout(clock.real_s(limit_s)):
                fault = await self._collect(body, arrivals, clock, at_s)
        except TimeoutError:
            fault = f"not finished within the time limit of {limit_s:g} s"
        except (aiohttp.ClientError, OSError) as broken:
            fault = _told(broken)
        return Heard(at_s=at_s, arrivals=tuple(arrivals), fault=fault)

    async def post(
        self, path: str, body: Mapping[str, object], clock: Clock, limit_s: float
    ) -> tuple[object, str]:
        """Send one document and return the answer's JSON and ''; where there is none, None and what went wrong."""
        sent = json.dumps({"model": self._model, **body}).encode()
        try:
            async with (
                asyncio.timeout(clock.real_s(limit_s)),
                self._http.post(path.lstrip("/"), data=sent, headers=_JSON) as answer,
            ):
                text = await answer.text("utf-8", "replace")
                if answer.status != 200:
                    return None, _refused(answer.status, text)
                return json.loads(text), ""
        except TimeoutError:
            return None, f"not finished within the time limit of {limit_s:g} s"
        except json.JSONDecodeError as fault:
            return None, f"the answer is not JSON: {fault}"
        except (aiohttp.ClientError, OSError) as broken:
            return None, _told(broken)

    def _streamed(self, question: Question) -> Mapping[str, object]:
        return {
            "model": self._model,
            "messages": [dict(message) for message in question.messages],
            "max_tokens": question.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            **question.body,
        }

    async def _collect(self, body: bytes, arrivals: list[Arrival], clock: Clock, at_s: float) -> str:
        """Stamp every read as it comes; return the fault of an answer that is none."""
        async with self._http.post(_CHAT, data=body, headers=_JSON) as answer:
            if answer.status != 200:
                return _refused(answer.status, await answer.text("utf-8", "replace"))
            async for data in answer.content.iter_any():
                arrivals.append(Arrival(at_s=clock.monotonic_s() - at_s, data=data))  # noqa: PERF401 - what came before a fault is kept
        return ""


@asynccontextmanager
async def connections(endpoint: Endpoint, number: int) -> AsyncIterator[tuple[Connection, ...]]:
    """Make that many connections, not yet open; proxies of the environment would be measured too, so they are passed over.

    Raises:
        UsageFault: the address is not http(s)://HOST:PORT with a port from 1 to 65535.

    """
    base = address(endpoint.url)
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(
                aiohttp.ClientSession(
                    base_url=base,
                    connector=aiohttp.TCPConnector(limit=1),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                    read_bufsize=_READ_BYTES,
                    auto_decompress=False,
                    headers={"accept-encoding": "identity", **key.header(endpoint.key_file)},
                )
            )
            for _ in range(number)
        ]
        yield tuple(Connection(http, endpoint.model) for http in made)


def address(url: str) -> str:
    """Return the base of an endpoint's address.

    Raises:
        UsageFault: the address is not http(s)://HOST:PORT with a port from 1 to 65535.

    """
    base = url.rstrip("/").removesuffix("/v1")
    if wrong := _wrong(base):
        raise UsageFault(
            f"{url}: not an address: {wrong}", hint="write http://HOST:PORT, as http://10.0.0.1:8000"
        )
    return f"{base}/"


def _wrong(base: str) -> str:
    """Return what is wrong with a base address, '' if nothing."""
    try:
        # Decoding a host may fail as late as at its first use; IDNA's error is a ValueError.
        return _wrong_part(httpx.URL(base))
    except (httpx.InvalidURL, ValueError) as fault:
        return str(fault)


def _wrong_part(url: httpx.URL) -> str:
    if url.scheme not in {"http", "https"}:
        return f"the scheme is {url.scheme or 'missing'}, wanted http or https"
    if not url.host:
        return "no host"
    if url.port is not None and not 1 <= url.port <= 65535:
        return f"the port is {url.port}, wanted 1 to 65535"
    return "a query or fragment cannot go before a path" if url.query or url.fragment else ""


def _refused(status: int, body: str) -> str:
    return f"HTTP {status}: {_message(body.strip())}"


def _message(text: str) -> str:
    try:
        return said(json.loads(text))
    except json.JSONDecodeError:
        return text[:200]


def _told(fault: Exception) -> str:
    if isinstance(fault, aiohttp.ClientConnectorError) and fault.os_error.errno:
        # Its own words go on about TLS where there is none; names that are not found have a negative number.
        number, said = fault.os_error.errno, fault.os_error.strerror
        return f"{type(fault).__name__}: {os.strerror(number) if number > 0 else said}"
    return f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
