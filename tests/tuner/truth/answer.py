"""One answer of the truth server: sends what the script says when it says so, and notes what it really did."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from aiohttp import web
from script import Chunk, Script, chunks
from wire import DONE, KEEP_ALIVE, Wire

PIECE_S = 0.003
"""Pause between the pieces of an event that is cut, so that each is a read of its own."""


@dataclass(slots=True, kw_only=True)
class Noted:
    """The truth on one request: tokens, and times on CLOCK_MONOTONIC in seconds, None where it did not come so far.

    A token's time is taken right before the write that completes its event. `completion_tokens` counts what was sent.
    """

    request_id: str
    tag: str
    status: int
    received_s: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int = 0
    first_tokens: int = 0
    """Tokens in the write that brought the first."""
    first_s: float | None = None
    last_s: float | None = None
    text: str = ""
    whole: bool = False


class Broken(Exception):
    """The script breaks the connection here."""


class Answer:
    """Sends one answer of `tokens` tokens made of `words`."""

    def __init__(self, script: Script, noted: Noted, wire: Wire, out: web.StreamResponse) -> None:
        self._script = script
        self._noted = noted
        self._wire = wire
        self._out = out

    async def send(self, words: Iterable[str], tokens: int) -> None:
        """Send all of it; raises Broken where the script breaks the connection."""
        script = self._script
        start_s = self._noted.received_s + script.first_s
        await _until(start_s - script.role_s)
        await self._write(self._wire.role() + self._wire.null() * script.nulls)
        comments = asyncio.create_task(self._keep_alive()) if script.keep_alive_s else None
        try:
            await self._tokens(iter(words), start_s, script.stop_at or tokens, tokens)
        finally:
            if comments:
                comments.cancel()
        await asyncio.sleep(script.tail_s)
        end = self._wire.usage(self._usage()) if script.usage != "none" else b""
        await self._write(end + DONE)
        self._noted.whole = True

    async def _tokens(self, words: Iterator[str], start_s: float, tokens: int, limit: int) -> None:
        held: list[tuple[Chunk, str]] = []
        for chunk in chunks(self._script, tokens):
            held.append((chunk, "".join(islice(words, chunk.tokens))))
            if len(held) < self._script.pack and chunk.last < tokens:
                continue
            await _until(start_s + chunk.due_s)
            reason = ("length" if tokens == limit else "stop") if chunk.last == tokens else None
            await self._chunks(held, reason)
            held.clear()
            await self._mishap(chunk)

    async def _chunks(self, held: list[tuple[Chunk, str]], reason: str | None) -> None:
        """Write chunks at once and note them."""
        noted, events = self._noted, b""
        for number, (chunk, text) in enumerate(held, 1):
            noted.completion_tokens, noted.text = chunk.last, noted.text + text
            usage = self._usage() if self._script.usage == "every" else None
            events += self._wire.text(text, reason if number == len(held) else None, usage)
        noted.last_s = await self._write(events)
        if noted.first_s is None:
            noted.first_s, noted.first_tokens = noted.last_s, noted.completion_tokens

    async def _mishap(self, chunk: Chunk) -> None:
        script = self._script
        if 0 < script.stall_at <= chunk.last:
            await asyncio.sleep(3600)
        if 0 < script.error_at <= chunk.last:
            await self._write(self._wire.error() + DONE)
            raise Broken
        if 0 < script.drop_at <= chunk.last or 0 < script.end_at <= chunk.last:
            raise Broken

    async def _write(self, data: bytes) -> float:
        """Write, in pieces where the script cuts; return when the last piece was written."""
        if self._script.crlf:
            data = data.replace(b"\n", b"\r\n")
        size = self._script.cut or len(data)
        at_s = time.monotonic()
        for start in range(0, len(data), size or 1):
            if start:
                await asyncio.sleep(PIECE_S)
            at_s = time.monotonic()
            await self._out.write(data[start : start + size])
        return at_s

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._script.keep_alive_s)
            await self._out.write(KEEP_ALIVE)

    def _usage(self) -> dict[str, object]:
        noted = self._noted
        counts: dict[str, object] = {
            "prompt_tokens": noted.prompt_tokens,
            "total_tokens": noted.prompt_tokens + noted.completion_tokens,
            "completion_tokens": noted.completion_tokens,
        }
        if noted.cached_tokens:
            counts["prompt_tokens_details"] = {"cached_tokens": noted.cached_tokens}
        return counts


async def _until(at_s: float) -> None:
    """Wait for a moment on CLOCK_MONOTONIC; at once where it is past."""
    await asyncio.sleep(max(0.0, at_s - time.monotonic()))
