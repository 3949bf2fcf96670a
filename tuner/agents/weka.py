"""Recorded sessions in the AgentX form ("Weka": one JSON object a session) to the neutral trace. Pure.

A session lists requests and subagents; a subagent lists its own, and may hold further ones. Times are seconds from the session's start;
who waited for whom is not written down and follows from them: a request comes after whatever of its own agent and its subagents had
ended by then. Keys and their types are those of AIPerf (ai-dynamo/aiperf, src/aiperf/dataset/graph/adapters/weka/trace_models.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tuner.agents import fields
from tuner.agents.fields import Fields
from tuner.agents.trace import Call, Header, Scope, Session, Trace, Why, refuse

_NO_TEXTS: tuple[str, ...] = ()
_NO_ITEMS: tuple[object, ...] = ()

_SCOPES: dict[str, Scope] = {"local": "session", "global": "file"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """One request with the agents above it (`lineage`, its own last) and its end; `call` has no place in the order yet."""

    lineage: tuple[str, ...]
    at_s: float
    end_s: float
    think_s: float | None
    stop: str
    inputs: tuple[str, ...]
    call: Call


def read(sessions: Iterable[tuple[str, object]], *, source: str) -> Trace:
    """Turn sessions, each with the place it was read from, into a trace.

    Raises:
        FileFault: the message lists every fault with its place.

    """
    faults: list[str] = []
    found = [_session(raw, place, faults) for place, raw in sessions]
    if not found and not faults:
        faults.append(f"{source}: no session, wanted at least one")
    if len({session.id for _, session in found}) < len(found):
        faults.append(f"{source}: two sessions have the same id")
    heads = {(head.block, head.hash_scope) for head, _ in found}
    if len(heads) > 1:
        faults.append(f"{source}: $.block_size, $.hash_id_scope: sessions differ, wanted one kind in a file")
    refuse(faults)
    return Trace(header=replace(found[0][0], source=source), sessions=tuple(session for _, session in found))


def _session(raw: object, place: str, faults: list[str]) -> tuple[Header, Session]:
    found = Fields(raw, place, faults)
    name = found.need("id", fields.text, "")
    head = Header(
        block=found.need("block_size", fields.positive, 1),
        hash_scope=_SCOPES[found.need("hash_id_scope", fields.one_of(*_SCOPES), "local")],
        source="",
        license="unknown",
    )
    entries = found.need("requests", fields.items, _NO_ITEMS)
    found.need("models", fields.texts, _NO_TEXTS)
    for key in ("tool_tokens", "system_tokens"):
        found.have(key, fields.whole, 0)
    found.have("totals", fields.optional(fields.mapping), None)
    found.close()
    recorded = sorted(_walk(entries, ("main",), f"{place}: $.requests", faults), key=lambda one: one.at_s)
    if not recorded and not faults:
        faults.append(f"{place}: $.requests: no request, wanted at least one")
    return head, Session(id=name, calls=tuple(_ordered(recorded)))


def _walk(
    entries: Iterable[object], lineage: tuple[str, ...], place: str, faults: list[str]
) -> Iterator[_Recorded]:
    """Yield every request of these entries, those of subagents among them."""
    for number, raw in enumerate(entries):
        where = f"{place}[{number}]"
        found = Fields(raw, where, faults)
        kind = found.need("type", fields.one_of("n", "s", "subagent"), "")
        if kind == "subagent":
            name = found.need("agent_id", fields.text, "")
            inner = _subagent(found)
            yield from _walk(inner, (*lineage, f"{name}#{number}"), f"{where}.requests", faults)
        elif kind:
            yield _request(found, lineage)


def _subagent(found: Fields) -> tuple[object, ...]:
    found.need("t", fields.seconds, 0.0)
    for key in ("subagent_type", "status"):
        found.need(key, fields.word, "")
    for key in ("duration_ms", "total_tokens", "tool_use_count"):
        found.have(key, fields.optional(fields.whole), None)
    found.have("models", fields.texts, _NO_TEXTS)
    for key in ("tool_tokens", "system_tokens"):
        found.have(key, fields.whole, 0)
    inner = found.need("requests", fields.items, _NO_ITEMS)
    found.close()
    return inner


def _request(found: Fields, lineage: tuple[str, ...]) -> _Recorded:
    at_s = found.need("t", fields.seconds, 0.0)
    took = found.have("api_time", fields.optional(fields.seconds), None)
    stop = found.have("stop", fields.word, "")
    rec = {
        "ttft": found.have("ttft", fields.optional(fields.seconds), None),
        "dur": took,
        "model": found.need("model", fields.word, ""),
        "stop": stop or None,
    }
    made = _Recorded(
        lineage=lineage,
        at_s=at_s,
        end_s=at_s + (took or 0.0),
        think_s=found.have("think_time", fields.optional(fields.seconds), None),
        stop=stop,
        inputs=found.have("input_types", fields.texts, _NO_TEXTS),
        call=Call(
            i=0,
            after=(),
            prompt_tokens=found.need("in", fields.positive, 1),
            completion_tokens=found.need("out", fields.whole, 0),
            agent="/".join(lineage[1:]) or "main",
            h=found.have("hash_ids", fields.wholes, ()),
            rec={key: value for key, value in rec.items() if value is not None},
        ),
    )
    found.have("output_types", fields.texts, _NO_TEXTS)
    found.close()
    return made


def _ordered(recorded: list[_Recorded]) -> Iterator[Call]:
    """Number the requests by their start and say what each came after."""
    joined: set[int] = set()
    until = {one.lineage: one.end_s for one in sorted(recorded, key=lambda one: one.end_s)}
    for i, one in enumerate(recorded):
        after = _after(recorded, i, joined, until)
        joined.update(after)
        before = recorded[max(after, key=lambda j: recorded[j].end_s)] if after else None
        yield replace(
            one.call,
            i=i,
            after=after,
            wait=_wait(one, recorded[i - 1] if i else None, before, recorded[0].at_s),
            why=_why(one, before),
            t=one.at_s,
        )


def _after(
    recorded: list[_Recorded], i: int, joined: set[int], until: Mapping[tuple[str, ...], float]
) -> tuple[int, ...]:
    """Return what a request came after: its own agent's last that had ended, and what ended since and nobody took up.

    A subagent's first comes after the last request of the agent that called it. A subagent counts as ended with all of its requests.
    """
    one = recorded[i]
    ended = [j for j in range(i) if recorded[j].end_s <= one.at_s]
    own = [j for j in ended if recorded[j].lineage == one.lineage]
    if not any(recorded[j].lineage == one.lineage for j in range(i)):
        callers = [j for j in ended if recorded[j].lineage == one.lineage[:-1]]
        return tuple(callers[-1:])
    below = [
        j
        for j in ended
        if j not in joined
        and recorded[j].lineage[: len(one.lineage)] == one.lineage
        and (recorded[j].lineage == one.lineage or until[recorded[j].lineage] <= one.at_s)
    ]
    return tuple(sorted({*own[-1:], *below}))


def _wait(one: _Recorded, previous: _Recorded | None, before: _Recorded | None, start_s: float) -> float:
    """Return the idle time before a request: as recorded where it counts from the same end, else from the times."""
    if before is not None and before is previous and one.think_s is not None:
        return one.think_s
    return round(max(0.0, one.at_s - (before.end_s if before else start_s)), 6)


def _why(one: _Recorded, before: _Recorded | None) -> Why:
    if before is None:
        return ""
    if "tool_result" in one.inputs or (not one.inputs and before.stop == "tool_use"):
        return "tool"
    return "user" if "text" in one.inputs or before.stop == "end_turn" else ""
