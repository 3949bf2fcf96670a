"""Replies: the texts of a bench result, ours or another's, as the audit judges them. Pure; each reader takes parsed JSON.

Requests that failed, and those that were asked for a single token, say nothing to judge and are left out.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.audit import Reply
from tuner.results.fields import at, count, items, text
from tuner.stream import Arrival, assemble


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One reply of a result and what to call it."""

    request: str
    reply: Reply


def of_stream(body: str) -> tuple[Answered, ...]:
    """Read one event stream, as a client saves it from a streamed completion.

    Raises:
        ValueError: it is none, or it tells of an error.

    """
    said = assemble([Arrival(at_s=0.0, data=body.encode() + b"\n")])
    if said.fault:
        raise ValueError(f"an event stream that is not whole: {said.fault}")
    reply = Reply(text=said.text, completion_tokens=said.completion_tokens, finish_reason=said.finish_reason)
    return (Answered(request="stream", reply=reply),)


def of_ours(raw: object) -> tuple[Answered, ...]:
    """Read what `sparkctl bench -o` wrote."""
    asked = {text(one, "id"): text(one, "text") for one in items(at(raw, "workload"), "prompts")}
    return tuple(
        Answered(request=_name(request), reply=reply)
        for request in items(raw, "requests")
        if not text(request, "fault") and _is_judged(reply := _our_reply(request, asked))
    )


def _our_reply(request: object, asked: dict[str, str]) -> Reply:
    if at(request, "text") is None:
        raise ValueError("a request has no text, wanted what was answered")
    return Reply(
        text=text(request, "text"),
        completion_tokens=count(request, "completion_tokens"),
        finish_reason=text(request, "finish_reason"),
        prompt=asked.get(text(request, "prompt"), ""),
    )


def _name(request: object) -> str:
    numbers = f"round {(count(request, 'round') or 0) + 1} stream {(count(request, 'stream') or 0) + 1}"
    return f"{text(request, 'cell')} {numbers}"


def of_vllm(raw: object) -> tuple[Answered, ...]:
    """Read the texts of `vllm bench serve --save-detailed`."""
    texts = items(raw, "generated_texts")
    counts, errors = (_as_long(raw, key, len(texts)) for key in ("output_lens", "errors"))
    found = []
    for number, (said, tokens, error) in enumerate(zip(texts, counts, errors, strict=True), 1):
        row = {"generated_texts": said, "output_lens": tokens}
        if said is None:
            raise ValueError(f"generated_texts: request {number} has none, wanted text")
        reply = Reply(text=text(row, "generated_texts"), completion_tokens=count(row, "output_lens"))
        if not error and _is_judged(reply):
            found.append(Answered(request=f"request {number}", reply=reply))
    return tuple(found)


def of_completion(raw: object) -> tuple[Answered, ...]:
    """Read a chat or text completion of the OpenAI kind."""
    tokens = count(at(raw, "usage"), "completion_tokens")
    replies = (_completed(one, tokens) for one in items(raw, "choices"))
    return tuple(
        Answered(request=f"choice {number}", reply=reply)
        for number, reply in enumerate(replies, 1)
        if _is_judged(reply)
    )


def _completed(choice: object, tokens: int | None) -> Reply:
    message = at(choice, "message")
    if message is None and not isinstance(at(choice, "text"), str):
        raise ValueError("a choice has neither message nor text, wanted one of them")
    return Reply(
        text=_said(message) if message is not None else text(choice, "text"),
        reasoning=text(message, "reasoning") or text(message, "reasoning_content"),
        completion_tokens=tokens,
        finish_reason=text(choice, "finish_reason"),
    )


def _said(message: object) -> str:
    """Return what a message says: its content, whole or in parts, and the tools it calls."""
    content, calls = at(message, "content"), at(message, "tool_calls")
    parts = content if isinstance(content, list) else []
    told = content if isinstance(content, str) else "".join(text(part, "text") for part in parts)
    return told + (json.dumps(calls, ensure_ascii=False) if calls else "")


def _is_judged(reply: Reply) -> bool:
    return reply.completion_tokens != 1 or bool(reply.text.strip())


def _as_long(raw: object, key: str, length: int) -> Sequence[object]:
    found = items(raw, key)
    if found and len(found) != length:
        raise ValueError(f"{key} is not a list of {length}, as generated_texts is")
    return found or (None,) * length
