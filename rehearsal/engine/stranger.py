"""A second client of a practice line: somebody else's questions among those of a bench, where the scenario has one."""

import asyncio
import time

from rehearsal import model
from rehearsal.engine import language
from rehearsal.engine.scheduler import Scheduler, Work
from rehearsal.engine.tokens import split

_QUESTION = "Tell a story about a ferry and a storm."
_EVERY_S = 5.0  # of the line's seconds, as the next
_TOKENS = 120
_LOOK_S = 0.05


async def ask(scheduler: Scheduler) -> None:
    """Ask now and then, from when the line has work; nobody reads the answers here."""
    if scheduler.boot.ails != "second-client":
        return
    while True:
        if scheduler.long_tokens and not scheduler.is_dead:
            scheduler.add(
                Work(
                    pieces=split(_QUESTION),
                    answer=language.pieces(_QUESTION, ends=True),
                    most=_TOKENS,
                    mean=model.ACCEPTED_PER_STEP,
                    deliver=lambda _text, _tokens, _reason: True,
                    arrived=time.monotonic(),
                )
            )
            await asyncio.sleep(_EVERY_S / scheduler.boot.pace)
        await asyncio.sleep(_LOOK_S)
