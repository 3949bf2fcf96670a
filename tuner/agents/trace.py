"""The neutral trace of agents' sessions, `*.agent.jsonl`: a header, then one call a line; read strictly, and written.

What a server can see of a session and nothing else: which calls must have ended before one starts, how long was waited then, how many
tokens went in and out, and which blocks of the prompt equal earlier ones. docs/formats.md has every key.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Literal, cast

from sparkctl.errors import FileFault
from tuner.agents import fields
from tuner.agents.fields import Fields, decoded
from tuner.workload import Plain

Why = Literal["", "user", "tool"]
Scope = Literal["session", "file"]
Message = Mapping[str, Plain]
"""A chat message as it is sent: `role`, `content` and what else the endpoint takes."""

MOST_FAULTS = 20
"""Faults of a file that are told; ours: a screen full. A file of another kind has one in every line."""

_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line: tokens of a block, where equal block ids mean equal text, and where the trace comes from."""

    block: int
    hash_scope: Scope
    source: str
    license: str
    tokenizer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of a session; times in seconds.

    `after` are the calls that must have ended, `wait` counts from the last of these ends (None: the trace does not tell);
    `keep` and `h` say which part of the prompt is old; `msgs` are the messages new since call `after[-1]`.
    """

    i: int
    after: tuple[int, ...]
    prompt_tokens: int
    completion_tokens: int
    agent: str = "main"
    wait: float | None = None
    why: Why = ""
    tool: tuple[tuple[str, float], ...] = ()
    keep: int | None = None
    h: tuple[int, ...] = ()
    t: float | None = None
    rec: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    msgs: tuple[Message, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The calls of one session, in order."""

    id: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A whole file, or as many of its sessions as were asked for."""

    header: Header
    sessions: tuple[Session, ...]

    @property
    def has_text(self) -> bool:
        """Whether the calls carry real messages."""
        return all(call.msgs is not None for session in self.sessions for call in session.calls)


def parse(lines: Iterable[str], *, source: str, take: int | None = None) -> Trace:
    """Read a trace, or its first `take` sessions.

    Raises:
        FileFault: the message lists every fault with its line.

    """
    faults: list[str] = []
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    header = _header(numbered, source, faults)
    found = _calls(numbered, source, faults)
    sessions: list[Session] = []
    for name, calls in groupby(found, key=lambda one: one[1]):
        if take is not None and len(sessions) == take:
            break
        if name in {session.id for session in sessions}:
            faults.append(f"{source}: $.s: the calls of session {name!r} do not stand together")
        sessions.append(_session(name, [(place, call) for place, _, call in calls], faults))
    if not sessions and not faults:
        faults.append(f"{source}: no call, wanted at least one line after the header")
    told = {call.msgs is None for session in sessions for call in session.calls}
    if len(told) > 1:
        faults.append(f"{source}: some calls have msgs and some have none, wanted all or none")
    refuse(faults)
    return Trace(header=header, sessions=tuple(sessions))


def write(trace: Trace) -> Iterator[str]:
    """Yield the lines of the file, without line ends; what is at its default is left out."""
    head = trace.header
    yield _line(
        {
            "format": "agent-trace",
            "v": 1,
            "block": head.block,
            "hash_scope": head.hash_scope,
            "source": head.source,
            "license": head.license,
            "tokenizer": head.tokenizer,
        }
    )
    for session in trace.sessions:
        yield from (_line(_written(session.id, call)) for call in session.calls)


def digest(trace: Trace) -> str:
    """Return the SHA-256 (hex) of the trace as it would be written."""
    told = hashlib.sha256()
    for line in write(trace):
        told.update(f"{line}\n".encode("utf-8", "surrogatepass"))
    return told.hexdigest()


def refuse(faults: list[str]) -> None:
    """Raise the faults of a file, if there are any.

    Raises:
        FileFault: with at most `MOST_FAULTS` of them and the number of the others.

    """
    if not faults:
        return
    more = len(faults) - MOST_FAULTS
    told = [*faults[:MOST_FAULTS], *([f"and {more} more faults"] if more > 0 else [])]
    raise FileFault("\n".join(told), hint="mend the lines named above; docs/formats.md describes every key")


def _header(numbered: Iterator[tuple[int, str]], source: str, faults: list[str]) -> Header:
    number, line = next(numbered, (1, "{}"))
    found = Fields(decoded(line, f"{source}:{number}", faults), f"{source}:{number}", faults)
    found.need("format", fields.one_of("agent-trace"), "")
    if found.need("v", fields.whole, 1) != 1:
        found.fault("v", "wanted 1, which is the only version")
    made = Header(
        block=found.need("block", fields.positive, 1),
        hash_scope=cast("Scope", found.need("hash_scope", fields.one_of("session", "file"), "session")),
        source=found.need("source", fields.word, ""),
        license=found.need("license", fields.word, ""),
        tokenizer=found.have("tokenizer", fields.optional(fields.text), None),
    )
    found.close()
    return made


def _calls(
    numbered: Iterable[tuple[int, str]], source: str, faults: list[str]
) -> Iterator[tuple[str, str, Call]]:
    """Yield place, session and call of each line; a line that is none yields nothing but its faults."""
    for number, line in numbered:
        place = f"{source}:{number}"
        raw = decoded(line, place, faults)
        found = Fields(raw, place, [] if raw is None else faults)
        if found.is_object:
            yield place, found.need("s", fields.text, ""), _call(found)


def _call(found: Fields) -> Call:
    i = found.need("i", fields.whole, 0)
    made = Call(
        i=i,
        after=found.have("after", fields.wholes, (i - 1,) if i else ()),
        prompt_tokens=found.need("in", fields.positive, 1),
        completion_tokens=found.need("out", fields.whole, 0),
        agent=found.have("agent", fields.text, "main"),
        wait=found.have("wait", fields.seconds, None),
        why=cast("Why", found.have("why", fields.one_of("user", "tool"), "")),
        tool=found.have("tool", _tools, ()),
        keep=found.have("keep", fields.whole, None),
        h=found.have("h", fields.wholes, ()),
        t=found.have("t", fields.seconds, None),
        rec=found.have("rec", fields.mapping, _NOTHING),
        msgs=found.have("msgs", _messages, None),
    )
    if any(one >= i for one in made.after) or len(set(made.after)) < len(made.after):
        found.fault("after", f"wanted calls before {i}, each once; found {list(made.after)}")
    if made.keep is not None and made.keep > made.prompt_tokens:
        found.fault("keep", f"{made.keep} tokens of a prompt of {made.prompt_tokens}")
    found.close()
    return made


def _session(name: str, calls: list[tuple[str, Call]], faults: list[str]) -> Session:
    for wanted, (place, call) in enumerate(calls):
        if call.i != wanted:
            faults.append(
                f"{place}: $.i: found {call.i}, wanted {wanted}: calls are numbered from 0, in order"
            )
            break
    return Session(id=name, calls=tuple(call for _, call in calls))


def _tools(value: object) -> tuple[tuple[str, float], ...]:
    wanted = ValueError("a list of [name, seconds]")
    found: list[tuple[str, float]] = []
    for one in fields.items(value):
        if not isinstance(one, list) or len(one) != 2:
            raise wanted
        found.append((fields.text(one[0]), fields.seconds(one[1])))
    return tuple(found)


def _messages(value: object) -> tuple[Message, ...]:
    found = tuple(fields.mapping(one) for one in fields.items(value))
    if not all(isinstance(one.get("role"), str) and "content" in one for one in found) or not found:
        raise ValueError("a list of messages with role and content")
    return cast("tuple[Message, ...]", found)


def _written(session: str, call: Call) -> dict[str, object]:
    told: dict[str, object] = {
        "s": session,
        "i": call.i,
        "after": list(call.after),
        "agent": None if call.agent == "main" else call.agent,
        "wait": call.wait,
        "why": call.why or None,
        "tool": [list(one) for one in call.tool] or None,
        "in": call.prompt_tokens,
        "out": call.completion_tokens,
        "keep": call.keep,
        "h": list(call.h) or None,
        "t": call.t,
        "rec": dict(call.rec) or None,
        "msgs": None if call.msgs is None else [dict(one) for one in call.msgs],
    }
    return {key: value for key, value in told.items() if value is not None}


def _line(told: Mapping[str, object]) -> str:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))
