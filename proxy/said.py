"""What a document of a reply says: its text, its tokens' log-probabilities, whether it calls a tool or ends.

Reads chunks of streams and whole answers alike, of `chat/completions` (`delta` or `message`) and of `completions` (`text`), as vLLM
writes them. A reply of several choices is none that is watched, so the first choice is the reply.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

_THOUGHTS = ("reasoning", "reasoning_content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One document's part of a reply; `logprobs` are natural logarithms, one a token, empty where none were sent."""

    thought: str = ""
    thought_key: str = ""
    text: str = ""
    logprobs: tuple[float, ...] = ()
    calls: bool = False
    role: bool = False
    finished: bool = False

    @property
    def tokens(self) -> int:
        """How many tokens it is: counted where log-probabilities tell, else the least that it can be."""
        return len(self.logprobs) or int(bool(self.thought or self.text or self.calls))


NOTHING = Said()


def read(document: Mapping[str, object] | None) -> Said:
    """Return what a document says; a comment, an end mark, usage alone or an error says nothing."""
    choice = _choice(document)
    if choice is None:
        return NOTHING
    spoken = _spoken(choice)
    key = next((one for one in _THOUGHTS if _text(spoken, one)), "")
    return Said(
        thought=_text(spoken, key),
        thought_key=key,
        text=_text(spoken, "content") or _text(choice, "text"),
        logprobs=_logprobs(choice.get("logprobs")),
        calls=bool(spoken.get("tool_calls") or spoken.get("function_call")),
        role="role" in spoken,
        finished=choice.get("finish_reason") is not None,
    )


def hidden(document: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the document without log-probabilities, as one is sent that nobody asked for them; None where it has none."""
    choices = document.get("choices")
    if not isinstance(choices, list):
        return None
    telling = [isinstance(one, dict) and one.get("logprobs") is not None for one in choices]
    if not any(telling):
        return None
    bare = [{**one, "logprobs": None} if tells else one for one, tells in zip(choices, telling, strict=True)]
    return {**document, "choices": bare}


def mapping(value: object) -> Mapping[str, object]:
    """Return a JSON object, an empty one for anything else."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _choice(document: Mapping[str, object] | None) -> Mapping[str, object] | None:
    choices = document.get("choices") if document else None
    return mapping(choices[0]) if isinstance(choices, list) and choices else None


def _spoken(choice: Mapping[str, object]) -> Mapping[str, object]:
    return mapping(choice.get("delta") or choice.get("message"))


def _text(spoken: Mapping[str, object], key: str) -> str:
    found = spoken.get(key)
    return found if isinstance(found, str) else ""


def _logprobs(told: object) -> tuple[float, ...]:
    """Read `content[].logprob` of a chat and `token_logprobs` of a completion; what is no number there is left out."""
    of_text = mapping(told).get("token_logprobs")
    if isinstance(of_text, list):
        return tuple(float(one) for one in of_text if isinstance(one, int | float))
    content = mapping(told).get("content")
    numbers = [mapping(one).get("logprob") for one in content] if isinstance(content, list) else []
    return tuple(float(one) for one in numbers if isinstance(one, int | float))
