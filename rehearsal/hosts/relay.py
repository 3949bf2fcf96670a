"""A TCP relay in front of a host's SSH or a line's API: delay in each direction, and connections that break off.

Not every kernel has netem, and it wants root. A relay cannot lose a packet of TCP; it can do what loss ends in: answers
that come late, a connection that breaks in the middle of an answer, and one that stays open without a word.
"""

import asyncio
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_CHUNK = 65536
_READY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What a relay does to each connection; the defaults pass everything on at once."""

    there_s: float = 0.0
    """Delay of what the caller sends."""
    back_s: float = 0.0
    """Delay of what the host answers."""
    cut_after: int | None = None
    """Bytes of the host's answers after which the connection is dropped."""
    silent_after: int | None = None
    """Bytes of the host's answers after which nothing comes any more, with the connection open."""
    damaged_at: int | None = None
    """Which byte of the host's answers, counted from 0, arrives with its bits turned round."""


class Relay:
    """A relay on this machine's loopback; use as a context manager, `port` is valid inside."""

    def __init__(self, address: str, port: int, weather: Weather) -> None:
        self._far = (address, port)
        self._weather = weather
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="relay")
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_READY_S):
            raise TimeoutError(f"the relay to {self._far[0]} did not start within {_READY_S:g} s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    @property
    def place(self) -> str:
        """The relay's place as known_hosts writes it."""
        return f"[127.0.0.1]:{self.port}"

    @property
    def variables(self) -> dict[str, object]:
        """The inventory keys of a host that is reached through the relay."""
        return {"ansible_host": "127.0.0.1", "ansible_port": self.port}

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        calls: set[asyncio.Task[None]] = set()

        def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            call = asyncio.create_task(self._call(reader, writer))
            calls.add(call)
            call.add_done_callback(calls.discard)

        server = await asyncio.start_server(called, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for call in tuple(calls):
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side ends it."""
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._far)
        except OSError:
            writer.transport.abort()
            return
        weather = self._weather
        ways = (
            asyncio.create_task(_carry(reader, far_writer, weather.there_s, Weather())),
            asyncio.create_task(_carry(far_reader, writer, weather.back_s, weather)),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for one in (writer, far_writer):
                one.transport.abort()


async def _carry(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float, weather: Weather
) -> None:
    """Carry one direction; what is read waits its delay in a queue, so that a delay does not slow a stream."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    emptying = asyncio.create_task(_empty(waiting, target))
    clock, carried = asyncio.get_running_loop().time, 0
    try:
        while chunk := await source.read(_CHUNK):
            chunk = _damaged(chunk, carried, weather.damaged_at)
            carried += len(chunk)
            if weather.silent_after is not None and carried > weather.silent_after:
                continue
            if weather.cut_after is not None and carried > weather.cut_after:
                return
            waiting.put_nowait((clock() + delay_s, chunk))
        waiting.put_nowait((clock() + delay_s, b""))
        await emptying
    except ConnectionError:
        return
    finally:
        emptying.cancel()


def _damaged(chunk: bytes, carried: int, place: int | None) -> bytes:
    """Return a chunk as it arrives: with the one byte turned round if it holds it."""
    if place is None or not carried <= place < carried + len(chunk):
        return chunk
    at = place - carried
    return chunk[:at] + bytes([chunk[at] ^ 0xFF]) + chunk[at + 1 :]


async def _empty(waiting: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
    while True:
        due, chunk = await waiting.get()
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        if not chunk:
            return
        target.write(chunk)
        await target.drain()
