"""A completion request as it came in: read, checked, and refused with vLLM's own words."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from rehearsal.engine import calls

_MOST_TOP = 20  # vLLM's --max-logprobs


class Served(NamedTuple):
    """What the head was told about serving."""

    name: str
    model: str
    max_model_len: int
    garbles: bool
    calls_tools: bool
    """--enable-auto-tool-choice with a parser: without them a call stays text."""
    details: bool
    """--enable-prompt-tokens-details: without it vLLM does not say how many prompt tokens were cached."""
    damage: float = 0.0
    """What the levers that are on do to probabilities; 0 for nothing, 1 for what EXL3 at 3.5 bits is reported to do."""


class Fault(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class Asked(NamedTuple):
    """A completion request, checked."""

    prompt: str
    most: int
    stream: bool
    usage: bool
    counts: bool
    """Whether each event carries the usage so far (`continuous_usage_stats`)."""
    ends: bool
    is_chat: bool
    tools: calls.Tools = calls.NONE
    """The functions that the answer may call, with the parameters of each by name."""
    prompt_logprobs: int | None = None
    """How many alternatives are wanted for each token of the prompt."""


def read(body: bytes, served: Served, *, is_chat: bool) -> Asked:
    """Read a request's JSON; Fault 400 or 404 says what vLLM would."""
    try:
        raw = json.loads(body)
    except ValueError as fault:
        raise Fault(400, "BadRequestError", f"JSON decode error: {fault}") from fault
    if not isinstance(raw, dict):
        raise Fault(400, "BadRequestError", "Input should be a valid dictionary")
    name = raw.get("model") or served.name
    if name != served.name:
        raise Fault(404, "NotFoundError", f"The model `{name}` does not exist.")
    most = raw.get("max_completion_tokens") or raw.get("max_tokens")
    if most is None:
        most = min(served.max_model_len // 2, 4096) if is_chat else 16
    if not isinstance(most, int) or most < 1:
        raise Fault(400, "BadRequestError", f"max_tokens must be at least 1, got {most}.")
    options = raw.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Fault(400, "BadRequestError", "stream_options: Input should be a valid dictionary")
    usage = bool(options.get("include_usage"))
    return Asked(
        prompt=_chat(raw) if is_chat else _plain(raw),
        most=most,
        stream=bool(raw.get("stream")),
        usage=usage,
        counts=usage and bool(options.get("continuous_usage_stats")),
        ends=not raw.get("ignore_eos"),
        is_chat=is_chat,
        tools=_tools(raw) if is_chat and served.calls_tools else calls.NONE,
        prompt_logprobs=None if is_chat else _top(raw),
    )


def _top(raw: dict[str, Any]) -> int | None:
    most: int | None = raw.get("prompt_logprobs")
    if most is not None and most > _MOST_TOP:
        raise Fault(
            400,
            "BadRequestError",
            f"Requested prompt logprobs of {most}, which is greater than max allowed: {_MOST_TOP}",
        )
    return most


def _tools(raw: dict[str, Any]) -> dict[str, Mapping[str, Any]]:
    tools = raw.get("tools") or []
    try:
        functions = [one["function"] for one in tools]
        return {str(one["name"]): (one.get("parameters") or {}).get("properties") or {} for one in functions}
    except (TypeError, KeyError, AttributeError) as fault:
        raise Fault(400, "BadRequestError", f"tools: {fault}: Field required") from fault


def _chat(raw: dict[str, Any]) -> str:
    messages = raw.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Fault(400, "BadRequestError", "messages: Field required")
    return "\n".join(_content(message) for message in messages)


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _plain(raw: dict[str, Any]) -> str:
    prompt = raw.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str) or not prompt:
        raise Fault(400, "BadRequestError", "prompt: one text is wanted")
    return prompt
