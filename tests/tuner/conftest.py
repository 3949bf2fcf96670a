"""A small HTTP server that says what a test scripts, and the values that several tests start from."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from sparkctl import content, edge
from sparkctl.cli import workloads
from tuner.lever import Ladder
from tuner.workload import Workload

Step = bytes | float | None
"""Bytes to send as one chunk, seconds to wait, or None to drop the connection."""

Script = Callable[[dict[str, Any]], tuple[int, list[Step]]]
"""From a request's JSON body to a status and the steps of its answer."""


@dataclass
class ScriptedServer:
    """Answers GET with an empty list of models and POST as its script says; one thread, one event loop."""

    script: Script = lambda _: (200, [])
    bodies: list[dict[str, Any]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, ready: threading.Event, stop: threading.Event) -> None:
        """Listen on a free port until told to stop."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        while not stop.is_set():  # noqa: ASYNC110 - the flag belongs to another thread
            await asyncio.sleep(0.005)
        server.close()
        await asyncio.sleep(0.01)  # a task that is cancelled before it begins would leave its writer open

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                if not await self._answer(head, body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        writer.close()

    async def _answer(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        if head.startswith(b"GET"):
            writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data":[]}')
            return True
        self.bodies.append(json.loads(body))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._play(self.bodies[-1], writer)
        finally:
            self.in_flight -= 1

    async def _play(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        status, steps = self.script(body)
        writer.write(f"HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        for step in steps:
            if step is None:
                writer.transport.abort()
                return False
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                writer.write(f"{len(step):x}\r\n".encode() + step + b"\r\n")
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        return True


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A scripted server that lives as long as the test."""
    scripted, ready, stop = ScriptedServer(), threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(scripted.serve(ready, stop)))
    thread.start()
    ready.wait(5)
    yield scripted
    stop.set()
    thread.join(5)


@pytest.fixture
def ladder() -> Ladder:
    """The ladder that ships as a demonstration: four levers, two primaries, 2 to 8 boots an arm."""
    return edge.read(content.ladder("demo"), Ladder)


@pytest.fixture
def quick() -> Workload:
    """The workload that ships for short benches."""
    return workloads.read("quick")
