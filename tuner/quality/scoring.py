"""Scoring: has an engine tell how probable it finds each token of the texts, alone and among other requests.

Asks for `prompt_logprobs`, and for `echo` with `logprobs` where an engine knows only that. A text that cannot be scored ends it:
scores of some texts say nothing that scores of others could be compared with.
"""

import asyncio
from collections.abc import Mapping

from tuner.client import Connection
from tuner.quality import logprobs
from tuner.quality.battery import Load, Scoring, Text
from tuner.quality.logprobs import Mix, Position, Scored
from tuner.quality.wire import Wire

_LEAD_S = 1.0
"""The line's seconds that the other requests get before a text is scored among them: they are to be decoding by then."""

Scores = tuple[tuple[Scored, ...], str]
"""What was scored, and why not all of it was ('' when it was)."""


async def score(lines: tuple[Connection, ...], scoring: Scoring, wire: Wire) -> Scores:
    """Score every text alone, one after the other, then again under load."""
    alone, fault = await _all(lines[0], scoring, "alone", wire)
    if fault:
        return alone, fault
    stop = asyncio.Event()
    others = lines[1 : 1 + scoring.load.in_flight]
    load = [asyncio.create_task(_keep(line, at, scoring.load, wire, stop)) for at, line in enumerate(others)]
    await asyncio.sleep(wire.clock.real_s(_LEAD_S))
    loaded, fault = await _all(lines[0], scoring, "loaded", wire)
    stop.set()
    faults = [f"among other requests: {one}" for one in (fault, *await asyncio.gather(*load)) if one]
    return (*alone, *loaded), next(iter(faults), "")


async def _all(line: Connection, scoring: Scoring, mix: Mix, wire: Wire) -> Scores:
    found: list[Scored] = []
    for text in scoring.texts:
        wire.report(f"scoring {text.id}, {mix}")
        positions = await _one(line, text, scoring.top, wire)
        if isinstance(positions, str):
            return tuple(found), f"text {text.id}: {positions}"
        found.append(Scored(text=text.id, mix=mix, positions=positions))
    return tuple(found), ""


async def _one(line: Connection, text: Text, top: int, wire: Wire) -> tuple[Position, ...] | str:
    """Score one text; the newer form's refusal is told when the older one fails too."""
    newer = await _form(line, {"prompt": text.text, "prompt_logprobs": top}, top, wire)
    if not isinstance(newer, str):
        return newer
    older = await _form(line, {"prompt": text.text, "echo": True, "logprobs": top}, top, wire)
    return newer if isinstance(older, str) else older


async def _form(
    line: Connection, body: Mapping[str, object], top: int, wire: Wire
) -> tuple[Position, ...] | str:
    answer, fault = await wire.complete(line, body)
    if fault:
        return fault
    try:
        return logprobs.read(answer, top)
    except ValueError as none:
        return str(none)


async def _keep(line: Connection, number: int, load: Load, wire: Wire, stop: asyncio.Event) -> str:
    """Keep one request running after the other until told to stop; return what went wrong, if anything."""
    turn = 0
    while not stop.is_set():
        ask = load.prompts[(number + turn) % len(load.prompts)]
        text = f"[{wire.run_tag} load {number}.{turn}] {ask}"
        _, fault = await wire.chat(
            line, {"messages": [{"role": "user", "content": text}], "max_tokens": load.max_tokens}
        )
        if fault:
            return fault
        turn += 1
    return ""
