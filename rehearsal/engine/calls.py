"""The call of a tool that a practice line makes when a prompt names tool and arguments."""

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

Tools = Mapping[str, Mapping[str, Any]]
"""Tools on offer, with the schema of each parameter by name."""

NONE: Tools = MappingProxyType({})

_CALL = re.compile(r"\b[Cc]all the tool (\w+)")


def called(prompt: str, tools: Tools) -> Iterator[str] | None:
    """Return the call that is asked for by name, with what stands behind the name of each parameter; None for no such."""
    asked = _CALL.search(prompt)
    given = {
        key: _typed(found[1] or found[2], parameter.get("type"))
        for key, parameter in (tools.get(asked[1], {}) if asked else {}).items()
        if (
            found := re.search(
                rf'\b{key} (?:"([^"]*)"|([^\s,"]*[^\s,".]))', prompt[asked.end() :] if asked else ""
            )
        )
    }
    if not asked or not given:
        return None
    call = json.dumps({"name": asked[1], "arguments": given}, ensure_ascii=False)
    return iter([f"<tool_call>\n{call}\n</tool_call>"])


def _typed(text: str, kind: object) -> object:
    return json.loads(text) if kind in {"integer", "number", "boolean"} else text
