"""Upstream: the line that the proxy stands before: asked for what a client asked, and for the second request of a repair.

The client's own headers go along, and its end ends the request; what is to be read here must come uncompressed. A connection is
opened for each request: one kept open may be closed by the line at the moment it is used again, and a POST cannot be repeated.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import StreamReader, web
from yarl import URL

from proxy.events import written
from proxy.headers import through

CONNECT_S = 10.0
"""Time to open a connection upstream; ours."""

REPAIR_S = 30.0
"""Time until the line takes the second request of a repair; meanwhile the first goes on. Ours: the prefix is in its cache."""

LOST = (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError)
"""The other side went away: before an answer, or within it."""

Answer = aiohttp.ClientResponse


class Upstream:
    """A line that is asked over one session of connections."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http = http
        self._address = address.rstrip("/")

    def asked(self, request: web.BaseRequest, body: bytes | StreamReader | None) -> Any:
        """Ask what a client asked, or bytes in the place of what it sent; a context that gives the answer."""
        headers = through(request.headers, but=("content-length",) if isinstance(body, bytes) else ())
        if isinstance(body, bytes):
            headers["accept-encoding"] = "identity"
        return self._http.request(
            request.method,
            URL(self._address + request.raw_path, encoded=True),
            headers=headers,
            data=body,
            allow_redirects=False,
        )

    async def second(self, request: web.BaseRequest, body: Mapping[str, object]) -> tuple[Answer | None, str]:
        """Ask for the repair; return its stream and '', or None and why there is none."""
        try:
            async with asyncio.timeout(REPAIR_S):
                answer = await self.asked(request, written(body))
        except TimeoutError:
            return None, f"the line did not take the second request within {REPAIR_S:g} s"
        except aiohttp.ClientError as fault:
            return None, f"the line did not take the second request: {type(fault).__name__}"
        if answer.status == 200:
            return answer, ""
        answer.close()
        return None, f"the line refused the second request: HTTP {answer.status}"


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[Upstream]:
    """Give the line at an address until the block ends."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
    ) as http:
        yield Upstream(http, address)
