"""How the ranks of a line meet: real TCP to the head's address and port, one JSON line a message."""

import asyncio
import json
from typing import Any, NamedTuple

Message = dict[str, Any]
_RETRY_S = 0.02


class Missing(Exception):
    """The time limit ran out; `joined` says how many were there."""

    def __init__(self, joined: int) -> None:
        super().__init__(joined)
        self.joined = joined


class Gone(Exception):
    """The other side closed the connection."""


class Link(NamedTuple):
    """One connection between the head and a rank."""

    rank: int
    hello: Message
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def tell(self, message: Message) -> None:
        """Send a message."""
        if not self.writer.is_closing():
            self.writer.write(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Message:
        """Return the next message; Gone when the other side has ended."""
        try:
            line = await self.reader.readline()
        except OSError as fault:
            raise Gone(self.rank) from fault
        if not line.endswith(b"\n"):
            raise Gone(self.rank)
        message: Message = json.loads(line)
        return message


async def gather(address: str, port: int, world: int, limit_s: float) -> tuple[Link, ...]:
    """Listen as the head until every other rank has joined; the listener closes then.

    Raises:
        OSError: the port is taken.
        Missing: not all came within `limit_s` of our seconds.

    """
    links: dict[int, Link] = {}
    full = asyncio.Event()

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = await _greet(reader, writer, world)
        if link is None or link.rank in links:
            writer.close()
            return
        links[link.rank] = link
        if len(links) == world - 1:
            full.set()

    server = await asyncio.start_server(welcome, address, port)
    try:
        if world > 1:
            await asyncio.wait_for(full.wait(), limit_s)
    except TimeoutError as fault:
        raise Missing(len(links)) from fault
    finally:
        server.close()
    return tuple(links[rank] for rank in sorted(links))


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, world: int) -> Link | None:
    """Read who has come; a stranger, or a rank of another line, is nobody."""
    try:
        hello = json.loads(await reader.readline())
    except (OSError, ValueError):
        return None
    if (
        not isinstance(hello, dict)
        or hello.get("world") != world
        or not 0 < int(hello.get("rank", 0)) < world
    ):
        return None
    return Link(int(hello["rank"]), hello, reader, writer)


async def join(address: str, port: int, hello: Message, limit_s: float) -> Link:
    """Join the head as another rank, trying until it listens.

    Raises:
        Missing: nobody listened within `limit_s` of our seconds.

    """
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    while loop.time() < until:
        try:
            reader, writer = await asyncio.open_connection(address, port)
        except OSError:
            await asyncio.sleep(_RETRY_S)
            continue
        link = Link(0, {}, reader, writer)
        link.tell(hello)
        return link
    raise Missing(0)
