"""Audit: is what an engine said whole? Judges one reply at a time, purely and in linear time.

Takes a Reply, gives every Damage that was found: loops, broken characters, leaked marks, drift of language, nothing
said at all. Speed says nothing of it, and a looping model is even faster: it asks for the same experts at every step.
What repeats for a reason passes: counting, tables, code with similar lines, JSON arrays, refrains.
"""

from tuner.audit.language import drifts, salads
from tuner.audit.loops import loops
from tuner.audit.marks import broken, leaks, unsaid
from tuner.audit.reply import Damage, Kind, Reply, Where

__all__ = ["Damage", "Kind", "Reply", "Where", "audit"]


def audit(reply: Reply) -> tuple[Damage, ...]:
    """Return every damage of a reply, the most telling first; none if it is whole."""
    if found := unsaid(reply):
        return (*found, *_judged(reply, "reasoning"))
    return (*_judged(reply, "text"), *_judged(reply, "reasoning"))


def _judged(reply: Reply, where: Where) -> tuple[Damage, ...]:
    text = reply.text if where == "text" else reply.reasoning
    if not text.strip():
        return ()
    found = (
        *leaks(text, reply, where),
        *broken(text, reply, where),
        *loops(text, where),
        *salads(text, where),
    )
    # Who thinks in one language and answers in another is not damaged, and thoughts wander.
    return found if where == "reasoning" else (*found, *drifts(text, reply.prompt, where))
