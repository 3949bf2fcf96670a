"""The second witness: the server's own counters, read over a connection before and after requests were sent."""

import asyncio

from tuner import counters
from tuner.client import Connection
from tuner.counters import Counters

_LOOKS, _LOOK_S = 20, 0.1
"""Looks at the server's counters after the last token, and the pause between them, in our own seconds."""


async def now(connection: Connection) -> Counters | None:
    """Return the server's own counters; None from one that shows none."""
    page = await connection.page("/metrics")
    found = None if page is None else counters.read(page)
    return found if found and found.made is not None else None


async def settled(connection: Connection) -> Counters | None:
    """Return the counters once no request runs: an engine counts the last step a moment after it has sent its tokens."""
    found = await now(connection)
    for _ in range(_LOOKS):
        await asyncio.sleep(_LOOK_S)
        last, found = found, await now(connection)
        if found is None or (found == last and not found.in_flight):
            break
    return found
