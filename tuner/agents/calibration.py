"""What is asked of an endpoint before a replay: whether it answers, what it has room for, and how many characters a token has."""

import asyncio
import json
from dataclasses import replace

from sparkctl.clock import Clock
from sparkctl.errors import Unclear
from tuner import client, witness
from tuner.agents import filler
from tuner.agents.filler import Segment, Voice
from tuner.client import Connection, Endpoint, Question
from tuner.stream import assemble

_SAMPLE_TOKENS = 2000
"""Of the text that is sent to learn how many characters a token has. Ours: long enough that a chat template does not matter."""


def room(endpoint: Endpoint) -> int | None:
    """Return the most tokens that the server takes for prompt and answer; None where it does not tell.

    Raises:
        UsageFault: the address is not http(s)://HOST:PORT with a port from 1 to 65535.
        Unclear: nobody answers at the address.

    """
    return asyncio.run(_room(endpoint))


def calibrated(endpoint: Endpoint, voice: Voice, *, run_tag: str, clock: Clock, limit_s: float) -> Voice:
    """Send one text and return the voice with the characters a token that the server counted.

    Raises:
        Unclear: the server did not answer or did not count.

    """
    return asyncio.run(_calibrated(endpoint, voice, run_tag, clock, limit_s))


async def _room(endpoint: Endpoint) -> int | None:
    async with client.connections(endpoint, 1) as (connection,):
        await answering(endpoint, connection)
        page = await connection.page("v1/models")
    try:
        told = json.loads(page or "")["data"][0].get("max_model_len")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    return told if isinstance(told, int) else None


async def _calibrated(endpoint: Endpoint, voice: Voice, run_tag: str, clock: Clock, limit_s: float) -> Voice:
    parts = (Segment(seed=f"{run_tag} sample", tokens=_SAMPLE_TOKENS),)
    sample = filler.text(parts, voice)
    async with client.connections(endpoint, 1) as (connection,):
        await answering(endpoint, connection)
        question = Question(messages=({"role": "user", "content": sample},), max_tokens=1)
        heard = await connection.stream(question, clock, limit_s)
        await witness.settled(connection)
    reply = assemble(heard.arrivals)
    if heard.fault or reply.fault or not reply.prompt_tokens:
        raise Unclear(
            f"{endpoint.url}: the first request did not tell how many tokens its {len(sample)} characters are: "
            f"{heard.fault or reply.fault or 'the server sent no usage block'}",
            hint="filler of recorded lengths needs an endpoint that counts tokens (stream_options.include_usage)",
        )
    return replace(voice, characters_a_token=len(sample) / reply.prompt_tokens)


async def answering(endpoint: Endpoint, connection: Connection) -> None:
    """Open the connection.

    Raises:
        Unclear: nobody answers at the address.

    """
    if fault := await connection.open():
        raise Unclear(
            f"{endpoint.url}: no answer: {fault}; wanted a served endpoint",
            hint="check the address, and whether the line is up: sparkctl status",
        )
