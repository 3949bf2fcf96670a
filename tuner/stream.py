"""The reply of a streamed chat completion, put together from the bytes as they arrived.

Takes the reads of one response body with their times, gives text, times of the first and last token, usage and what
was wrong. A read may hold many events or half of one; an event counts as arrived with the read that ends its line.
Note: one `data:` line is one event, as all OpenAI-like servers write them; events over several lines are not joined.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_DONE = "[DONE]"
_TEXTS = ("reasoning", "reasoning_content", "content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One read of the body: bytes and when they came, in seconds since the request was sent."""

    at_s: float
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the stream said. Times are 0 where no token came; counts are None where the server gave none.

    `text` is all of it, `content` what belongs into a history: without the thoughts.

    `first_tokens` is how many tokens had come with the read that brought the first: more than one where a parser holds tokens
    back, where a step made several, or where events were joined on the way. It is the server's running count where events carry
    one, else the number of events, which is the least that it can be.
    """

    ttft_s: float
    total_s: float
    first_tokens: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    finish_reason: str
    text: str
    fault: str
    content: str


@dataclass(slots=True)
class _Notes:
    """What has been gathered so far."""

    token_times: list[float] = field(default_factory=list)
    first_tokens: int = 0
    counted: int = 0
    texts: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    usage: object = None
    finish_reason: str = ""
    fault: str = ""
    done: bool = False


def assemble(arrivals: Iterable[Arrival]) -> Reply:
    """Put the reply together; a fault is in the value, whatever the server sent."""
    notes = _Notes()
    for at_s, payload in _events(arrivals):
        if payload == _DONE:
            notes.done = True
        else:
            _take(notes, at_s, payload)
    fault = notes.fault or ("" if notes.done else "the stream ended before [DONE]")
    return Reply(
        ttft_s=notes.token_times[0] if notes.token_times else 0.0,
        total_s=notes.token_times[-1] if notes.token_times else 0.0,
        first_tokens=notes.first_tokens,
        prompt_tokens=_count(notes.usage, "prompt_tokens"),
        completion_tokens=_count(notes.usage, "completion_tokens"),
        cached_tokens=_count(_at(notes.usage, "prompt_tokens_details"), "cached_tokens"),
        finish_reason=notes.finish_reason,
        text=_whole("".join(notes.texts)),
        fault=fault,
        content=_whole("".join(notes.contents)),
    )


def _events(arrivals: Iterable[Arrival]) -> Iterator[tuple[float, str]]:
    """Yield each `data:` line with the time at which its end arrived; comments and other fields are passed over."""
    rest = b""
    for arrival in arrivals:
        *lines, rest = (rest + arrival.data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield arrival.at_s, line.removeprefix(b"data:").strip().decode("utf-8", "replace")


def _take(notes: _Notes, at_s: float, payload: str) -> None:
    try:
        event: object = json.loads(payload)
    except json.JSONDecodeError:
        notes.fault = notes.fault or f"an event is not JSON: {payload[:80]!r}"
        return
    if _at(event, "error") is not None:
        notes.fault = notes.fault or f"the server reported: {said(event)}"
    usage = _at(event, "usage")
    notes.usage = notes.usage if usage is None else usage
    choices = _at(event, "choices")
    if isinstance(choices, list) and choices:
        _take_choice(notes, at_s, choices[0], _count(usage, "completion_tokens"))


def _take_choice(notes: _Notes, at_s: float, choice: object, counted: int | None) -> None:
    delta = _at(choice, "delta")
    found = [_at(delta, name) for name in _TEXTS]
    content = _at(delta, "content")
    notes.contents += [content] if isinstance(content, str) else []
    texts = [text for text in found if isinstance(text, str) and text]
    reason = _at(choice, "finish_reason")
    if isinstance(reason, str):
        notes.finish_reason = reason
    # A token may have no text of its own (half a character, an end mark): then a count that grew or its finish reason marks it.
    if texts or isinstance(reason, str) or (counted or 0) > notes.counted:
        notes.token_times.append(at_s)
        notes.texts += texts
        if at_s == notes.token_times[0]:
            notes.first_tokens = notes.first_tokens + 1 if counted is None else counted
    notes.counted = max(notes.counted, counted or 0)


def said(body: object) -> str:
    """Return the message within an error body of the OpenAI kind, else its JSON, at most 200 characters."""
    error = _at(body, "error")
    for place in (_at(error, "message"), _at(body, "message"), _at(body, "detail"), error):
        if isinstance(place, str) and place:
            return _whole(place)[:200]
    return _whole(json.dumps(body, ensure_ascii=False))[:200]


def _whole(text: str) -> str:
    """Join surrogate pairs that JSON escapes cut in two, and replace lone halves, which no terminal or file takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _at(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _count(value: object, key: str) -> int | None:
    found = _at(value, key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
