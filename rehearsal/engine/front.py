"""The API server of a practice line: HTTP/1.1 by hand, with the routes that a client of vLLM uses."""

import asyncio
import json
import time
from collections.abc import Iterator

from rehearsal import model
from rehearsal.engine import ailment, language, likelihood, metrics
from rehearsal.engine.asked import Asked, Fault, Served, read
from rehearsal.engine.reply import Client, Reply, send
from rehearsal.engine.scheduler import Scheduler, Work
from rehearsal.engine.tokens import split

_MOST_BODY = 64 * 1024 * 1024
_TEMPLATE = 6  # tokens that the chat template adds


class Front:
    """Answers the line's clients."""

    def __init__(self, scheduler: Scheduler, served: Served) -> None:
        self._scheduler = scheduler
        self._served = served
        self._has_failed = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it closes."""
        client = Client(reader, writer)
        try:
            while await self._answer(client):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # a client that breaks off or does not speak HTTP is its own affair
        finally:
            writer.close()

    async def _answer(self, client: Client) -> bool:
        head = (await client.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        verb, target, _ = head[0].split(" ", 2)
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:])}
        length = int(headers.get("content-length", "0"))
        if length > _MOST_BODY:
            return False
        body = await client.reader.readexactly(length)
        arrived = time.monotonic()
        keep = headers.get("connection", "").lower() != "close"
        try:
            await self._route(verb, target.partition("?")[0], body, arrived, client)
        except Fault as fault:
            error = {"message": str(fault), "type": fault.kind, "param": None, "code": fault.status}
            send(client, fault.status, "application/json", json.dumps({"error": error}))
        await client.writer.drain()
        return keep and not client.is_gone

    async def _route(self, verb: str, path: str, body: bytes, arrived: float, client: Client) -> None:
        posts = {"/v1/chat/completions": True, "/v1/completions": False}
        gets = {"/health", "/v1/models", "/metrics", "/version", "/ping"}
        if path in posts:
            _allow(verb, "POST")
            await self._complete(read(body, self._served, is_chat=posts[path]), arrived, client)
        elif path in gets:
            _allow(verb, "GET")
            self._show(path, client)
        else:
            raise Fault(404, "NotFoundError", "Not Found")

    def _show(self, path: str, client: Client) -> None:
        if path == "/metrics":
            send(
                client,
                200,
                "text/plain; version=0.0.4; charset=utf-8",
                metrics.page(self._scheduler, self._served.name),
            )
        elif path == "/v1/models":
            card = {
                "id": self._served.name,
                "object": "model",
                "created": int(time.time()),
                "owned_by": "vllm",
                "root": self._served.model,
                "parent": None,
                "max_model_len": self._served.max_model_len,
            }
            send(client, 200, "application/json", json.dumps({"object": "list", "data": [card]}))
        elif path == "/version":
            send(client, 200, "application/json", '{"version":"0.33.0"}')
        else:
            # A line that lost a rank stays green until a request has found out (seen with vLLM on CPU).
            send(client, 503 if self._has_failed else 200, "text/plain", "")

    async def _complete(self, asked: Asked, arrived: float, client: Client) -> None:
        if self._scheduler.is_dead:
            self._has_failed = True
            raise Fault(
                500,
                "InternalServerError",
                "EngineCore encountered an issue. See stack trace (above) for the root cause.",
            )
        pieces = split(asked.prompt)
        if asked.is_chat:
            pieces += [""] * _TEMPLATE
        if len(pieces) + asked.most > self._served.max_model_len:
            raise Fault(
                400,
                "BadRequestError",
                f"This model's maximum context length is {self._served.max_model_len} tokens. However, you requested "
                f"{asked.most} output tokens and your prompt contains {len(pieces)} input tokens.",
            )
        answer = Reply(asked, self._served, len(pieces), client)
        if asked.prompt_logprobs is not None:
            answer.prompt_logprobs = likelihood.scores(pieces, asked.prompt_logprobs, self._state())
        mean = model.ACCEPTED_COUNTING if language.is_counting(asked.prompt) else model.ACCEPTED_PER_STEP
        ails = self._scheduler.boot.ails
        work = Work(
            pieces=pieces,
            answer=ailment.spoiled(ails, self._words(asked), asked.most, self._scheduler.long_tokens),
            most=asked.most,
            mean=ailment.mean(ails, mean, asked.most),
            deliver=answer.take,
            arrived=arrived,
        )
        self._scheduler.add(work)
        answer.cached_tokens = work.cached
        await answer.finished.wait()
        if answer.failed:
            self._has_failed = True
            if not asked.stream:
                raise Fault(
                    500,
                    "InternalServerError",
                    "EngineCore encountered an issue. See stack trace (above) for the root cause.",
                )

    def _state(self) -> likelihood.State:
        """Return what probabilities depend on; a batch is told apart by what was computed until then."""
        boot, busy = self._scheduler.boot, bool(self._scheduler.running)
        batch = self._scheduler.tally.generated_tokens + 1 if busy else 0
        return likelihood.State(boot.seed, boot.number, batch, self._served.damage)

    def _words(self, asked: Asked) -> Iterator[str]:
        return (
            language.garbled(asked.prompt)
            if self._served.garbles
            else language.pieces(asked.prompt, ends=asked.ends, tools=asked.tools)
        )


def _allow(verb: str, wanted: str) -> None:
    if verb not in {wanted, "HEAD"}:
        raise Fault(405, "MethodNotAllowed", "Method Not Allowed")
