"""The truth server: answers as vLLM does, by script, and tells afterwards what was true. Its own process: `python tests/tuner/truth`.

A request says in its body's key `truth` how it wants to be answered (script.py). `GET /truth` gives every request since the
last `DELETE /truth` (answer.py's Noted), `GET /metrics` the counters that vLLM shows. Times are CLOCK_MONOTONIC, which all
processes of a machine share. Prints its port and ends with its standard input, so that it never outlives who started it.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from aiohttp import web
from answer import Answer, Broken, Noted
from script import Script, asked
from speech import words
from wire import Wire, refusal

CHARACTERS_A_TOKEN = 4
"""This server's tokenizer, as far as prompts go."""


class Truth:
    """All requests, and what the counters show of them."""

    def __init__(self) -> None:
        self.noted: list[Noted] = []
        self.counted = {"prompt_tokens": 0, "generation_tokens": 0, "prefix_cache_hits": 0}
        self.running = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer a completion, chat or plain."""
        received_s = time.monotonic()
        body = await request.json()
        chat = request.path.endswith("chat/completions")
        prompt = "".join(_texts(body["messages"])) if chat else str(body["prompt"])
        script = asked(body, prompt)
        noted = _note(request, prompt, script, received_s)
        self.noted.append(noted)
        if script.refuse:
            return web.Response(status=script.refuse, body=refusal(script.refuse))
        out = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await out.prepare(request)
        wire = Wire(number=len(self.noted), model=str(body.get("model")), chat=chat, escape=script.escape)
        tokens = int(body.get("max_completion_tokens") or body["max_tokens"])
        with self._counting(noted, script):
            try:
                await Answer(script, noted, wire, out).send(words(prompt), tokens)
            except Broken:
                if script.drop_at and request.transport:
                    request.transport.abort()
        return out

    @contextmanager
    def _counting(self, noted: Noted, script: Script) -> Iterator[None]:
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self.counted["prompt_tokens"] += noted.prompt_tokens
            self.counted["prefix_cache_hits"] += noted.cached_tokens
            self.counted["generation_tokens"] += noted.completion_tokens + script.neighbour

    async def metrics(self, _: web.Request) -> web.Response:
        """Show the counters in Prometheus' text format."""
        rows = {f"{name}_total": count for name, count in self.counted.items()}
        rows |= {"num_requests_running": self.running, "num_requests_waiting": 0}
        lines = [
            f'vllm:{name}{{engine="0",model_name="truth"}} {float(count)}' for name, count in rows.items()
        ]
        return web.Response(text="\n".join(lines) + "\n")

    async def tell(self, _: web.Request) -> web.Response:
        """Tell the truth on every request."""
        return web.json_response([asdict(one) for one in self.noted])

    async def forget(self, _: web.Request) -> web.Response:
        """Forget the requests, not the counters, which never go back."""
        self.noted.clear()
        return web.Response(status=204)

    @staticmethod
    async def models(_: web.Request) -> web.Response:
        """Name the one model."""
        return web.json_response({"object": "list", "data": [{"id": "truth", "object": "model"}]})


def _note(request: web.Request, prompt: str, script: Script, received_s: float) -> Noted:
    tokens = max(1, len(prompt) // CHARACTERS_A_TOKEN)
    return Noted(
        request_id=request.headers.get("x-request-id", ""),
        tag=prompt[: prompt.find("]") + 1] if prompt.startswith("[") else "",
        status=script.refuse or 200,
        received_s=received_s,
        prompt_tokens=tokens,
        cached_tokens=tokens if script.cached < 0 else min(script.cached, tokens),
    )


def _texts(messages: list[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        content = message["content"]
        yield from (content,) if isinstance(content, str) else (str(part.get("text", "")) for part in content)


async def serve() -> None:
    """Serve on a free port until standard input ends."""
    truth, app = Truth(), web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", truth.complete)
    app.router.add_post("/v1/completions", truth.complete)
    app.router.add_get("/v1/models", truth.models)
    app.router.add_get("/metrics", truth.metrics)
    app.router.add_get("/truth", truth.tell)
    app.router.add_delete("/truth", truth.forget)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201 - who started it waits for this line
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
