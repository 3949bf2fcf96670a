"""What a client asked for: whether its reply can be watched, what is sent on for it, and whether the reply can be continued.

Takes a request's path and body, gives an `Asked`, or an `Unwatched` with the reason: then the request goes on byte for byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from proxy.events import parsed
from proxy.said import mapping

Form = Literal["chat", "text"]

PATHS: Mapping[str, Form] = MappingProxyType({"/v1/chat/completions": "chat", "/v1/completions": "text"})

FULL = "sparkctl_full"
"""The key of `vllm_xargs` by which the plug-in reads every expert of a request in full."""

TEMPERATURE = 1.0
"""Taken where the client names none: OpenAI's default. vLLM may take another from the model's generation_config.json; a lower one
makes improbable tokens rarer, so that this errs to the side of fewer alarms."""

_GRAMMARS = (
    *("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    *("guided_whitespace_pattern", "structural_tag"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request whose reply is watched. `body` is the client's, `sent` what goes upstream for it.

    `hides` says that the client did not ask for the log-probabilities that come; `fixed` why its reply cannot be continued from
    its middle, '' where it can; `full` that it asks for full reads already.
    """

    form: Form
    streamed: bool
    temperature: float
    body: Mapping[str, object]
    sent: Mapping[str, object]
    hides: bool
    fixed: str
    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwatched:
    """A request that goes on as it came, and why."""

    why: str


def read(form: Form, data: bytes, *, full: bool = False) -> Asked | Unwatched:
    """Read a request; with `full` every expert is read in full for it from the start."""
    body = parsed(data)
    if body is None:
        return Unwatched(why="the body is no JSON object")
    if why := _several(form, body):
        return Unwatched(why=why)
    hides = not body.get("logprobs") if form == "chat" else body.get("logprobs") is None
    told: Mapping[str, object] = {"logprobs": True, "top_logprobs": 0} if form == "chat" else {"logprobs": 0}
    sent = {**body, **told} if hides else body
    return Asked(
        form=form,
        streamed=body.get("stream") is True,
        temperature=_temperature(body),
        body=body,
        sent=in_full(sent) if full else sent,
        hides=hides,
        fixed=_fixed(form, body),
        full=full or bool(mapping(body.get("vllm_xargs")).get(FULL)),
    )


def in_full(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return a request that asks for full reads."""
    return {**body, "vllm_xargs": {**mapping(body.get("vllm_xargs")), FULL: True}}


def _several(form: Form, body: Mapping[str, object]) -> str:
    """Return why a request's reply is not one text, '' where it is."""
    number = body.get("n")
    if isinstance(number, int) and number > 1:
        return "several choices"
    if body.get("use_beam_search"):
        return "a beam search"
    if body.get("echo"):
        return "a reply that echoes its prompt"
    prompt = body.get("prompt")
    if form == "text" and isinstance(prompt, list) and not all(isinstance(one, int) for one in prompt):
        return "several prompts"
    return ""


def _fixed(form: Form, body: Mapping[str, object]) -> str:
    """Return why a reply cannot be continued from its middle, '' where it can."""
    shape = mapping(body.get("response_format")).get("type", "text")
    if shape != "text" or any(body.get(key) for key in _GRAMMARS):
        return "a grammar would begin anew"
    if form == "text":
        return (
            "" if isinstance(body.get("prompt"), str) and not body.get("suffix") else "its prompt is no text"
        )
    if isinstance(body.get("tool_choice"), dict) or body.get("tool_choice") == "required":
        return "a tool must be called"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "it has no messages"
    if body.get("continue_final_message") and not isinstance(mapping(messages[-1]).get("content"), str):
        return "the message that it continues is no text"
    return ""


def _temperature(body: Mapping[str, object]) -> float:
    found = body.get("temperature")
    return float(found) if isinstance(found, int | float) else TEMPERATURE
