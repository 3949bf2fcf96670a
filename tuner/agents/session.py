"""What a replay sends: sessions as turns, when each may start, and the messages of its prompt. Pure.

Three kinds of load become one: our own sessions, whose prompts grow by the model's real answers; traces with messages, whose recorded
answers are sent so that prefixes stay exact; and traces without text, whose prompts are filler of the recorded lengths.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from tuner.agents import authored, filler, trace
from tuner.agents.authored import AgentWorkload
from tuner.agents.filler import Voice
from tuner.agents.trace import Message, Scope, Trace, Why
from tuner.workload import Plain

Words = Literal["own", "recorded", "filler"]
"""Whose words the prompts are: authored with the model's own answers, recorded, or made up."""

MEANING: Mapping[Words, str] = MappingProxyType(
    {
        "own": "real text, the model's own answers kept in the history, real ends",
        "recorded": "recorded messages and answers, the model's own answers measured and dropped, real ends",
        "filler": (
            "FILLER TEXT and forced lengths: speed only; draft acceptance and Engram lookups mean nothing, "
            "so these are no headline speeds where either is in use"
        ),
    }
)

TRACE_LIMIT_S = 1800.0
"""Of one request of a trace; ours: a cold prompt of a million tokens takes twelve minutes at 1,400 tokens/s."""

ROOM = 1.05
"""Filler's tokens over the planned ones that must still fit a server. Ours: a block's text is not cut at a token's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One call to be made: `wait_s` after the last of `after` has ended; 0 is waited where the trace does not tell.

    The prompt is the messages of turn `base` (with its answer behind, when `answers`) and the new ones; where there is no text,
    filler after the recorded session.
    """

    i: int
    after: tuple[int, ...]
    wait_s: float
    why: Why
    agent: str
    max_tokens: int
    messages: tuple[Message, ...] = ()
    base: int | None = None
    answers: bool = False
    prompt_tokens: int | None = None
    """What the trace says; None where only the server can count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The turns of one session, in order; `recorded` is what filler follows, where there is no text."""

    id: str
    turns: tuple[Turn, ...]
    recorded: trace.Session | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Everything that a replay sends; `unwaited` counts calls whose wait nobody recorded."""

    name: str
    digest: str
    words: Words
    sessions: tuple[Session, ...]
    body: Mapping[str, Plain]
    limit_s: float
    block: int = 1
    scope: Scope = "session"
    """Tokens of a block of a trace, and where equal block ids mean equal text."""
    shares_system: bool = False
    unwaited: int = 0
    left_out: int = 0
    """Sessions with a call that the server has no room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One session to be run: each time under a head of its own, so that it finds nothing of another copy in the cache."""

    number: int
    session: Session
    head: str


def of_workload(workload: AgentWorkload) -> Load:
    """Plan our own sessions."""
    return Load(
        name=workload.name,
        digest=authored.digest(workload),
        words="own",
        sessions=tuple(_authored(one, workload.system) for one in workload.sessions),
        body=workload.body,
        limit_s=workload.limit_s,
        shares_system=workload.shares_system,
    )


def of_trace(found: Trace, name: str) -> Load:
    """Plan the sessions of a trace."""
    words: Words = "recorded" if found.has_text else "filler"
    return Load(
        name=name,
        digest=trace.digest(found),
        words=words,
        sessions=tuple(_traced(one, found) for one in found.sessions),
        body={} if words == "recorded" else {"ignore_eos": True},
        limit_s=TRACE_LIMIT_S,
        block=found.header.block,
        scope=found.header.hash_scope,
        unwaited=sum(call.wait is None for one in found.sessions for call in one.calls if call.after),
    )


def fitting(load: Load, room: int | None) -> Load:
    """Leave out the sessions with a call that a server of so many tokens has no room for; None: it does not tell."""
    if room is None:
        return load
    kept = tuple(one for one in load.sessions if all(_needs(load, turn) <= room for turn in one.turns))
    return replace(load, sessions=kept, left_out=len(load.sessions) - len(kept))


def copies(load: Load, live: int, run_tag: str) -> tuple[Copy, ...]:
    """Return what a level of `live` sessions runs: whole rounds over the load, so that every level has the same mix."""
    number = len(load.sessions)
    rounds = math.ceil(live / number)
    return tuple(
        Copy(number=at, session=load.sessions[at % number], head=_head(load, f"{run_tag} s{live}", at))
        for at in range(rounds * number)
    )


def width(session: Session) -> int:
    """Return a number of calls that a session never exceeds at once: chains that cover it."""
    taken: set[int] = set()
    chains = 0
    for turn in session.turns:
        follows = next((one for one in turn.after if one not in taken), None)
        chains += follows is None
        taken |= set() if follows is None else {follows}
    return chains


def prompt(
    copy: Copy, i: int, load: Load, answers: Mapping[int, str], voice: Voice | None
) -> tuple[Message, ...]:
    """Return the messages of one call; `answers` are the model's own, by turn."""
    recorded = copy.session.recorded
    if voice and recorded:
        parts = filler.segments(recorded, i, load.block, load.scope)
        return ({"role": "user", "content": f"{copy.head} {filler.text(parts, voice)}"},)
    found: list[Message] = []
    for one in _history(copy.session, i):
        if one.answers and one.base is not None:
            found.append({"role": "assistant", "content": answers[one.base]})
        found += one.messages
    return _headed(found, copy.head, shares_system=load.shares_system)


def asked(session: Session, i: int) -> str:
    """Return the words of a call's prompt that are not the model's own; none for filler."""
    return "\n".join(str(said["content"]) for one in _history(session, i) for said in one.messages)


def _history(session: Session, i: int) -> list[Turn]:
    """Return the turns whose messages make up a prompt, oldest first."""
    found = [session.turns[i]]
    while found[-1].base is not None:
        found.append(session.turns[found[-1].base])
    return found[::-1]


def _headed(messages: list[Message], head: str, *, shares_system: bool) -> tuple[Message, ...]:
    """Put the copy's head before the first message, or before the user's first where sessions share the system prompt."""
    at = next((n for n, one in enumerate(messages) if one["role"] == "user"), 0) if shares_system else 0
    old = messages[at]
    content = old["content"]
    parts: list[object] = content if isinstance(content, list) else []
    new: Plain = f"{head} {content}" if isinstance(content, str) else [{"type": "text", "text": head}, *parts]
    return (*messages[:at], {**old, "content": new}, *messages[at + 1 :])


def _authored(one: authored.AuthoredSession, system: str) -> Session:
    def turn(i: int, told: authored.Turn) -> Turn:
        said = f"Output of `{told.tool}`:\n\n{told.text}" if told.tool else told.text
        new: tuple[Message, ...] = ({"role": "user", "content": said},)
        return Turn(
            i=i,
            after=(i - 1,) if i else (),
            wait_s=told.wait_s,
            why=told.who,
            agent="main",
            max_tokens=told.max_tokens,
            messages=new if i else ({"role": "system", "content": system}, *new),
            base=i - 1 if i else None,
            answers=bool(i),
        )

    return Session(id=one.id, turns=tuple(turn(i, told) for i, told in enumerate(one.turns)))


def _traced(one: trace.Session, found: Trace) -> Session:
    return Session(
        id=one.id,
        turns=tuple(
            Turn(
                i=call.i,
                after=call.after,
                wait_s=call.wait or 0.0,
                why=call.why,
                agent=call.agent,
                max_tokens=max(call.completion_tokens, 1),
                messages=call.msgs or (),
                base=call.after[-1] if call.msgs and call.after else None,
                prompt_tokens=call.prompt_tokens,
            )
            for call in one.calls
        ),
        recorded=None if found.has_text else one,
    )


def _needs(load: Load, turn: Turn) -> float:
    more = ROOM if load.words == "filler" else 1.0
    return (turn.prompt_tokens or 0) * more + turn.max_tokens


def _head(load: Load, run: str, number: int) -> str:
    """Return `[rid:<12 hex>]`; where blocks are shared over the file, one for a whole round over it."""
    shared = load.scope == "file" and load.words == "filler"
    which = number // len(load.sessions) if shared else number
    return f"[rid:{hashlib.sha256(f'{run} {which}'.encode()).hexdigest()[:12]}]"
