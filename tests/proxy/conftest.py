"""A scripted upstream, the proxy in front of it on a loop of its own, and chunks as vLLM writes them."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from proxy.server import Proxy, Settings, running
from proxy.tally import Event

Answer = Callable[[web.BaseRequest, dict[str, Any]], Any]


def chunk(text: str = "", logprob: float | None = -0.1, **choice: Any) -> dict[str, Any]:
    """Return one chunk of a chat with one token."""
    delta = choice.pop("delta", {"content": text})
    logprobs = (
        None if logprob is None else {"content": [{"token": text, "logprob": logprob, "top_logprobs": []}]}
    )
    one = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": None, **choice}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [one],
    }


def sse(document: dict[str, Any] | str) -> bytes:
    """Write a frame as vLLM does."""
    told = (
        document
        if isinstance(document, str)
        else json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    )
    return f"data: {told}\n\n".encode()


ROLE = chunk("", None, delta={"role": "assistant", "content": ""})
END = chunk("", -0.1, finish_reason="stop")
DONE = sse("[DONE]")


def texts(body: bytes) -> str:
    """Return the content of a stream."""
    found = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: {")]
    return "".join(one["choices"][0]["delta"].get("content") or "" for one in found if one.get("choices"))


@dataclass
class Bench:
    """An upstream that answers as told, and a proxy before it; `seen` are the bodies that upstream got."""

    loop: asyncio.AbstractEventLoop
    answer: Answer
    seen: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    raised: list[Event] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    port: int = 0
    upstream: int = 0
    proxy: Proxy | None = None

    @property
    def url(self) -> str:
        """Where the proxy listens."""
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer upstream."""
        data = await request.content.read()
        body = json.loads(data) if data.startswith(b"{") else {"raw": data.decode("latin-1")}
        self.seen.append(body)
        self.heads.append({key.lower(): value for key, value in request.headers.items()})
        try:
            found = await self.answer(request, body)
        except (asyncio.CancelledError, ConnectionError):
            self.ended.append(request.path)
            raise
        assert isinstance(found, web.StreamResponse)
        return found


async def streamed(
    request: web.BaseRequest, frames: list[bytes], wait_s: float = 0.0, *, breaks: bool = False
) -> web.StreamResponse:
    """Send frames as an event stream, with a pause after each; with `breaks` without an end."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "x-request-id": "r1"})
    await response.prepare(request)
    for frame in frames:
        await response.write(frame)
        await asyncio.sleep(wait_s)
    if breaks and request.transport:
        request.transport.close()
    return response


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    """Make a bench; what it raised stops with the test."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stops: list[asyncio.Event] = []
    tasks = []

    def make(answer: Answer, **settings: Any) -> Bench:
        made, ready, stop = Bench(loop=loop, answer=answer), threading.Event(), asyncio.Event()
        stops.append(stop)

        async def serve() -> None:
            runner = web.ServerRunner(
                web.Server(made.handle, handler_cancellation=True), shutdown_timeout=0.1
            )
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            made.upstream = runner.addresses[0][1]
            chosen = Settings(upstream=f"http://127.0.0.1:{made.upstream}", **settings)
            async with running(chosen, "127.0.0.1", 0, made.raised.append) as (made.proxy, made.port):
                ready.set()
                await stop.wait()
            await runner.cleanup()

        tasks.append(asyncio.run_coroutine_threadsafe(serve(), loop))
        assert ready.wait(5)
        return made

    yield make
    for stop in stops:
        loop.call_soon_threadsafe(stop.set)
    for task in tasks:
        task.result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()
