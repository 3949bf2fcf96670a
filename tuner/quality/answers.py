"""Answers: one reply of a chat completion as values, and the judges of those with a right answer. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.quality.battery import JsonType

_FENCE = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_SHOWN = 80

_PYTHON: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "string": (str,),
    "whole": (int,),
    "integer": (int,),
    "number": (int, float),
    "flag": (bool,),
    "boolean": (bool,),
    "list": (list,),
    "array": (list,),
    "object": (dict,),
}
"""Our names of JSON's types and JSON schema's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One reply; `calls` holds tool name and arguments (text, as they came) of each call, `fault` is empty when all is well."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    fault: str = ""


def read(answer: object) -> Said:
    """Read the answer of a chat completion that was not streamed; whatever it is, the result is a value."""
    choices = _at(answer, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message, (prompt, made) = _at(choice, "message"), usage(answer)
    if not isinstance(message, dict):
        return Said(fault="the answer has no message")
    calls = _at(message, "tool_calls")
    functions = [_at(one, "function") for one in calls] if isinstance(calls, list) else []
    return Said(
        text=_text(_at(message, "content")),
        reasoning=_text(_at(message, "reasoning") or _at(message, "reasoning_content")),
        calls=tuple((_text(_at(one, "name")), _text(_at(one, "arguments"))) for one in functions),
        finish_reason=_text(_at(choice, "finish_reason")),
        prompt_tokens=prompt,
        completion_tokens=made,
    )


def usage(answer: object) -> tuple[int | None, int | None]:
    """Return the prompt's and the reply's tokens, as the server counts them."""
    found = _at(answer, "usage")
    return _count(_at(found, "prompt_tokens")), _count(_at(found, "completion_tokens"))


def named(said: Said, wanted: str) -> str:
    """Judge a reply that must name a number."""
    return "" if wanted in _NUMBER.findall(said.text) else f"wanted {wanted}, found {_shown(said.text)}"


def counted(said: Said, first: int, last: int) -> str:
    """Judge a reply that must be the numbers from `first` to `last`, in order and nothing else."""
    found, wanted = [int(one) for one in _NUMBER.findall(said.text)], list(range(first, last + 1))
    if found == wanted:
        return ""
    at = next((at for at, (one, two) in enumerate(zip(found, wanted, strict=False)) if one != two), None)
    if at is None:
        return f"{len(found)} numbers, wanted {len(wanted)} ({said.finish_reason or 'no finish reason'})"
    return f"number {at + 1} is {found[at]}, wanted {wanted[at]}"


def recorded(said: Said, keys: Mapping[str, JsonType]) -> str:
    """Judge a reply that must be one JSON object with exactly these keys, each of its type."""
    try:
        found = json.loads(said.text)
    except ValueError as fault:
        return f"not JSON: {fault}: {_shown(said.text)}"
    if not isinstance(found, dict):
        return f"wanted an object, found {_shown(said.text)}"
    if set(found) != set(keys):
        return f"the keys are {', '.join(sorted(found)) or 'none'}, wanted {', '.join(sorted(keys))}"
    wrong = [key for key, kind in keys.items() if not _is(found[key], kind)]
    return f"{wrong[0]} is {_shown(json.dumps(found[wrong[0]]))}, wanted {keys[wrong[0]]}" if wrong else ""


def called(said: Said, tool: str, arguments: Mapping[str, object], schema: Mapping[str, object]) -> str:
    """Judge a reply that must be one call of `tool` whose arguments parse, fit the schema and are the ones wanted."""
    if len(said.calls) != 1:
        return f"{len(said.calls)} calls, wanted one of {tool}: {_shown(said.text)}"
    name, text = said.calls[0]
    if name != tool:
        return f"called {name or 'nothing'}, wanted {tool}"
    try:
        found = json.loads(text)
    except ValueError as fault:
        return f"the arguments are not JSON: {fault}: {_shown(text)}"
    if not isinstance(found, dict):
        return f"the arguments are {_shown(text)}, wanted an object"
    return _unfit(found, schema) or _unlike(found, arguments)


def code(text: str) -> str:
    """Return the Python of a reply: its fenced blocks one after the other, or all of it where there is none."""
    blocks = _FENCE.findall(text)
    return "\n".join(blocks) if blocks else text


def _unfit(found: Mapping[str, object], schema: Mapping[str, object]) -> str:
    """Return what does not fit the schema: a missing or an unknown argument, or a wrong type."""
    properties = schema.get("properties")
    known: Mapping[str, object] = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    missing = [name for name in required if name not in found] if isinstance(required, list) else []
    if missing:
        return f"no argument {missing[0]}"
    for name, value in found.items():
        if name not in known:
            return f"an argument {name} that the tool does not take"
        kind = _at(known[name], "type")
        if isinstance(kind, str) and not _is(value, kind):
            return f"{name} is {_shown(json.dumps(value))}, wanted {kind}"
    return ""


def _unlike(found: Mapping[str, object], wanted: Mapping[str, object]) -> str:
    for name, value in wanted.items():
        if _plain(found.get(name)) != _plain(value):
            return f"{name} is {_shown(json.dumps(found.get(name)))}, wanted {json.dumps(value)}"
    return ""


def _plain(value: object) -> object:
    """Return text without regard to case and outer spaces: an argument's value is judged, not its typography."""
    if isinstance(value, str):
        return value.strip().casefold()
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _is(value: object, kind: str) -> bool:
    allowed = _PYTHON.get(kind)
    return allowed is None or (
        isinstance(value, allowed) and (kind in {"flag", "boolean"} or not isinstance(value, bool))
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _text(found: object) -> str:
    return (
        found.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(found, str) else ""
    )


def _count(found: object) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _at(found: object, key: str) -> object:
    return found.get(key) if isinstance(found, dict) else None
