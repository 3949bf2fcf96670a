"""Server: takes requests, has the line asked for them, and passes on what comes.

What is not watched goes through byte for byte, errors and unknown endpoints included. A client that leaves ends its request upstream;
a stream that breaks off upstream breaks off here too, after what came of it. What was decided about a reply stands in `proxy.reply`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aiohttp import web

from proxy import asked as asking
from proxy import repair, whole
from proxy.asked import Asked, Unwatched
from proxy.depth import Depths
from proxy.events import parsed, written
from proxy.headers import through
from proxy.reply import Alarm, Reply, Step
from proxy.said import hidden
from proxy.tally import Event, Tally, Told
from proxy.thresholds import Thresholds
from proxy.upstream import LOST, Answer, Upstream, opened
from sparkctl.errors import UsageFault

_DONE = {"continue": "continued", "anew": "asked anew", "tell": "told only"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to watch: `off` passes everything through; `calibrate` reads everything in full, notes depths and repairs nothing."""

    upstream: str
    thresholds: Thresholds = field(default_factory=Thresholds)
    hold: int = 0
    off: bool = False
    calibrate: bool = False


class Proxy:
    """A proxy in front of one upstream; `tell` gets every alarm, on a thread of its own, one after the other."""

    def __init__(self, upstream: Upstream, settings: Settings, tell: Told) -> None:
        self.tally = Tally()
        self._upstream = upstream
        self._settings = settings
        self._tell = tell
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def telling(self) -> None:
        """Hand out alarms as they come; what writes them down must not hold up a stream."""
        while True:
            await asyncio.to_thread(self._tell, await self._events.get())
            self._events.task_done()

    async def told(self) -> None:
        """Wait until every alarm is handed out."""
        await self._events.join()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        self.tally.requests += 1
        try:
            form = asking.PATHS.get(request.path) if request.method == "POST" else None
            if form is None or self._settings.off:
                return await self._pass(request, None)
            data = await request.content.read()
            asked = asking.read(form, data, full=self._settings.calibrate)
            if isinstance(asked, Unwatched):
                self.tally.unwatched[asked.why] = self.tally.unwatched.get(asked.why, 0) + 1
                return await self._pass(request, data)
            return await self._watch(request, data, asked)
        except LOST as fault:
            return _unanswered(fault)

    async def _pass(self, request: web.BaseRequest, data: bytes | None) -> web.StreamResponse:
        body = data if data is not None else request.content if request.body_exists else None
        async with self._upstream.asked(request, body) as answer:
            return await self._copy(request, answer)

    async def _watch(self, request: web.BaseRequest, data: bytes, asked: Asked) -> web.StreamResponse:
        async with self._upstream.asked(request, written(asked.sent)) as answer:
            if answer.status == 200:
                self.tally.watched += 1
                return await (self._stream if asked.streamed else self._whole)(request, answer, asked)
        # Refused: perhaps for what was added. The client's own request gets its own answer.
        why = f"HTTP {answer.status}"
        self.tally.unwatched[why] = self.tally.unwatched.get(why, 0) + 1
        return await self._pass(request, data)

    async def _stream(self, request: web.BaseRequest, answer: Answer, asked: Asked) -> web.StreamResponse:
        settings = self._settings
        limits = settings.thresholds.at(asked.temperature)
        reply = Reply(asked=asked, limits=limits, hold=settings.hold, mends=not settings.calibrate)
        response = await self._begun(request, answer)
        source = answer
        try:
            while data := await source.content.readany():
                source = await self._took(request, response, source, reply, reply.feed(data))
            await response.write(reply.end())
            await response.write_eof()
            self._note(asked, reply.healthy)
        except LOST:
            await response.write(reply.end())
            self._break(request)
        finally:
            source.close()
        return response

    async def _took(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        source: Answer,
        reply: Reply,
        step: Step,
    ) -> Answer:
        """Do what a step says; return the stream to read on, which is another after a repair."""
        while True:
            if step.forward:
                await response.write(step.forward)
            for alarm in step.told:
                self._raise(reply.asked, alarm)
            if step.alarm is None or step.repair is None:
                return source
            second, why = await self._upstream.second(request, step.repair)
            if second:
                self._raise(reply.asked, step.alarm)
                source.close()
                reply.turn()
                return second
            self._raise(reply.asked, replace(step.alarm, action="tell", why=why, dropped_tokens=0))
            step = reply.stay()

    async def _whole(self, request: web.BaseRequest, answer: Answer, asked: Asked) -> web.StreamResponse:
        data = await answer.read()
        told = parsed(data)
        if told:
            limits = self._settings.thresholds.at(asked.temperature)
            judged = whole.judge(asked, told, limits, mends=not self._settings.calibrate)
            self._note(asked, judged.healthy)
            if judged.alarm:
                data = await self._again(request, asked, judged.alarm, data)
                told = parsed(data)
        bare = hidden(told) if told and asked.hides else None
        headers = through(answer.headers, but=("content-length",))
        return web.Response(status=answer.status, headers=headers, body=written(bare) if bare else data)

    async def _again(self, request: web.BaseRequest, asked: Asked, alarm: Alarm, data: bytes) -> bytes:
        """Return the whole reply read in full, and the first where that could not be had."""
        if alarm.action == "tell":
            self._raise(asked, alarm)
            return data
        second, why = await self._upstream.second(request, repair.anew(asked))
        try:
            fresh = await second.read() if second else data
        except LOST as fault:
            second, fresh, why = None, data, f"{type(fault).__name__}"
        self._raise(asked, alarm if second else replace(alarm, action="tell", why=why, dropped_tokens=0))
        return fresh

    async def _begun(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(
            status=answer.status, reason=answer.reason, headers=through(answer.headers)
        )
        await response.prepare(request)
        return response

    async def _copy(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        response = await self._begun(request, answer)
        try:
            while data := await answer.content.readany():
                await response.write(data)
            await response.write_eof()
        except LOST:
            self._break(request)
        return response

    def _break(self, request: web.BaseRequest) -> None:
        """Break off towards the client as upstream did: what was written goes out, an end does not."""
        self.tally.broken += 1
        if request.transport:
            request.transport.close()

    def _note(self, asked: Asked, depths: Depths | None) -> None:
        """While calibrating, note a whole reply: its depths, or that it loops by itself."""
        if not self._settings.calibrate:
            return
        if depths is None:
            self.tally.loops[asked.temperature] = self.tally.loops.get(asked.temperature, 0) + 1
        else:
            self.tally.depths.setdefault(asked.temperature, []).append(depths)

    def _raise(self, asked: Asked, alarm: Alarm) -> None:
        key = f"{alarm.sign.reason}: {_DONE[alarm.action]}"
        self.tally.alarms[key] = self.tally.alarms.get(key, 0) + 1
        model = asked.body.get("model")
        self._events.put_nowait(
            Event(
                alarm=alarm,
                model=model if isinstance(model, str) else "",
                temperature=asked.temperature,
                limits=self._settings.thresholds.at(asked.temperature),
            )
        )


def _unanswered(fault: Exception) -> web.Response:
    """Say in OpenAI's form that the line does not answer."""
    error = {
        "message": f"sparkctl proxy: the line does not answer: {type(fault).__name__}",
        "type": "upstream_unreachable",
        "code": 502,
    }
    return web.Response(status=502, body=written({"error": error}), content_type="application/json")


@asynccontextmanager
async def running(settings: Settings, host: str, port: int, tell: Told) -> AsyncIterator[tuple[Proxy, int]]:
    """Serve on an address until the block ends; give the proxy and its port, which 0 lets the system choose.

    Raises:
        UsageFault: the address cannot be listened on.

    """
    async with opened(settings.upstream) as upstream:
        proxy = Proxy(upstream, settings, tell)
        runner = web.ServerRunner(
            web.Server(proxy.handle, handler_cancellation=True, auto_decompress=False, access_log=None),
            shutdown_timeout=1.0,
        )
        await runner.setup()
        teller = asyncio.create_task(proxy.telling())
        try:
            await _listen(runner, host, port)
            yield proxy, int(runner.addresses[0][1])
            await proxy.told()
        finally:
            teller.cancel()
            await runner.cleanup()


async def _listen(runner: web.ServerRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as fault:
        raise UsageFault(
            f"{host}:{port} cannot be listened on: {fault.strerror}", hint="name another with --listen"
        ) from fault
