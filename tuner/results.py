"""From a bench result, ours or another's, to the replies that the audit judges.

Takes parsed JSON, or the text of an event stream, and gives named replies. Shapes: `sparkctl bench -o`, `vllm bench serve
--save-result --save-detailed`, chat and text completions of the OpenAI kind, a list of these, an event stream. Requests
that failed, and those that were asked for a single token, say nothing to judge and are left out.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.audit import Reply
from tuner.stream import Arrival, assemble

SHAPES = "sparkctl bench -o, vllm bench serve --save-detailed, an OpenAI completion, a list of them, or an event stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One reply of a result and what to call it."""

    request: str
    reply: Reply


def of_stream(text: str) -> tuple[Answered, ...]:
    """Read one event stream, as a client saves it from a streamed completion.

    Raises:
        ValueError: it is none, or it tells of an error.

    """
    said = assemble([Arrival(at_s=0.0, data=text.encode() + b"\n")])
    if said.fault:
        raise ValueError(f"an event stream that is not whole: {said.fault}")
    reply = Reply(text=said.text, completion_tokens=said.completion_tokens, finish_reason=said.finish_reason)
    return (Answered(request="stream", reply=reply),)


def of_document(raw: object) -> tuple[Answered, ...]:
    """Read one JSON document of any shape that is known.

    Raises:
        ValueError: the shape is another, or a key of it is not what it should be.

    """
    match raw:
        case {"requests": [*requests], "workload": {"prompts": [*prompts]}}:
            return tuple(_ours(requests, prompts))
        case {"generated_texts": [*texts]}:
            return tuple(_of_vllm(raw, texts))
        case {"output_throughput": _, "completed": _}:
            raise ValueError(
                "a bench without its texts; wanted generated_texts, which --save-detailed writes"
            )
        case {"choices": [*choices]}:
            return tuple(_completed(raw, choices))
        case [_, *_]:
            parts = enumerate(map(of_document, raw), 1)
            return tuple(
                Answered(request=f"{number} {one.request}", reply=one.reply)
                for number, part in parts
                for one in part
            )
    keys = f"the keys {', '.join(map(str, raw))}"[:120] if isinstance(raw, Mapping) else type(raw).__name__
    raise ValueError(f"found {keys}, wanted {SHAPES}")


def _ours(requests: list[object], prompts: list[object]) -> Iterator[Answered]:
    asked = {_text(one, "id"): _text(one, "text") for one in prompts}
    for request in requests:
        reply = Reply(
            text=_text(request, "text", must=True),
            completion_tokens=_count(request, "completion_tokens"),
            finish_reason=_text(request, "finish_reason"),
            prompt=asked.get(_text(request, "prompt"), ""),
        )
        numbers = f"round {(_count(request, 'round') or 0) + 1} stream {(_count(request, 'stream') or 0) + 1}"
        if not _text(request, "fault") and _is_judged(reply):
            yield Answered(request=f"{_text(request, 'cell')} {numbers}", reply=reply)


def _of_vllm(raw: object, texts: list[object]) -> Iterator[Answered]:
    counts, errors = _list(raw, "output_lens", len(texts)), _list(raw, "errors", len(texts))
    for number, (text, count, error) in enumerate(zip(texts, counts, errors, strict=True), 1):
        if not isinstance(text, str):
            raise ValueError(f"generated_texts[{number - 1}] is {type(text).__name__}, wanted text")
        reply = Reply(text=text, completion_tokens=count if isinstance(count, int) else None)
        if not error and _is_judged(reply):
            yield Answered(request=f"request {number}", reply=reply)


def _completed(raw: object, choices: list[object]) -> Iterator[Answered]:
    usage = _at(raw, "usage")
    for number, choice in enumerate(choices, 1):
        message = _at(choice, "message")
        if message is None and not isinstance(_at(choice, "text"), str):
            raise ValueError(f"choices[{number - 1}] has neither message nor text, wanted one of them")
        reply = Reply(
            text=_said(message) if message is not None else _text(choice, "text"),
            reasoning=_text(message, "reasoning") or _text(message, "reasoning_content"),
            completion_tokens=_count(usage, "completion_tokens"),
            finish_reason=_text(choice, "finish_reason"),
        )
        if _is_judged(reply):
            yield Answered(request=f"choice {number}", reply=reply)


def _said(message: object) -> str:
    """Return what a message says: its content, whole or in parts, and the tools it calls."""
    content, calls = _at(message, "content"), _at(message, "tool_calls")
    parts = content if isinstance(content, list) else []
    text = content if isinstance(content, str) else "".join(_text(part, "text") for part in parts)
    return text + (json.dumps(calls, ensure_ascii=False) if calls else "")


def _is_judged(reply: Reply) -> bool:
    return reply.completion_tokens != 1 or bool(reply.text.strip())


def _list(raw: object, key: str, length: int) -> list[object]:
    found = _at(raw, key)
    if found is None:
        return [None] * length
    if not isinstance(found, list) or len(found) != length:
        raise ValueError(f"{key} is not a list of {length}, as generated_texts is")
    return found


def _at(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None


def _text(value: object, key: str, *, must: bool = False) -> str:
    found = _at(value, key)
    if isinstance(found, str):
        return found
    if must:
        raise ValueError(f"a request has no {key}, wanted what was answered")
    return ""


def _count(value: object, key: str) -> int | None:
    found = _at(value, key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
