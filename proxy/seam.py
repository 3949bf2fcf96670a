"""Seam: makes the documents of a second stream read as the rest of the first.

The client sees one reply: one id, one time, one announcement of the role, and usage that counts what it was sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.said import Said, mapping

_ONCE = ("id", "created")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """Where two streams meet.

    `first` is a document of the first stream, `begun` that the client has its role already. `seen_tokens` were sent before the seam;
    `given_tokens` of them stand in the prompt of the second stream.
    """

    first: Mapping[str, object]
    begun: bool
    seen_tokens: int
    given_tokens: int

    def joined(self, document: Mapping[str, object], said: Said) -> Mapping[str, object] | None:
        """Return a document as the client may see it, None where it only announces the role again."""
        told = {**document, **{key: self.first[key] for key in _ONCE if key in self.first}}
        if document.get("usage"):
            told["usage"] = self._counted(mapping(document["usage"]))
        if not (self.begun and said.role):
            return told
        if said.tokens or said.finished or document.get("usage"):
            return {**told, "choices": [_without_role(one) for one in _list(document.get("choices"))]}
        return None

    def _counted(self, usage: Mapping[str, object]) -> Mapping[str, object]:
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if not isinstance(prompt, int) or not isinstance(completion, int):
            return usage
        prompt, completion = prompt - self.given_tokens, completion + self.seen_tokens
        return {
            **usage,
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }


def _without_role(choice: object) -> object:
    told = mapping(choice)
    delta = {key: value for key, value in mapping(told.get("delta")).items() if key != "role"}
    return {**told, "delta": delta}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
