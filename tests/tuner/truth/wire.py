"""The events of a streamed completion as vLLM writes them, as bytes: chat and plain completions."""

import json
from dataclasses import dataclass
from typing import Any

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Writes the events of one answer; `chat` tells the two endpoints apart."""

    number: int
    model: str
    chat: bool
    escape: bool

    def role(self) -> bytes:
        """Return the event that opens a chat; a plain completion has none."""
        return self._choice({"role": "assistant", "content": ""}) if self.chat else b""

    def null(self) -> bytes:
        """Return an event that says nothing."""
        return self._choice({"content": None}) if self.chat else self._choice(None)

    def text(self, text: str, reason: str | None, usage: dict[str, Any] | None) -> bytes:
        """Return the event of one chunk."""
        return self._choice({"content": text} if self.chat else text, reason, usage)

    def usage(self, usage: dict[str, Any]) -> bytes:
        """Return the event with the counts."""
        return self._event({"choices": [], "usage": usage})

    def error(self) -> bytes:
        """Return the event of an engine that died."""
        message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
        return _data(
            {"error": {"message": message, "type": "InternalServerError", "param": None, "code": 500}}
        )

    def _choice(self, said: object, reason: str | None = None, usage: dict[str, Any] | None = None) -> bytes:
        choice = {
            "index": 0,
            "delta" if self.chat else "text": said,
            "logprobs": None,
            "finish_reason": reason,
        }
        return self._event({"choices": [choice]} | ({"usage": usage} if usage else {}))

    def _event(self, more: dict[str, Any]) -> bytes:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        head = {"id": f"truth-{self.number}", "object": kind, "created": 0, "model": self.model}
        return _data(head | more, escape=self.escape)


def refusal(status: int) -> bytes:
    """Return the body of a refusal, as vLLM or a proxy in front of it words it."""
    said: dict[int, object] = {
        400: {"error": {"message": "This model's maximum context length is 8192 tokens.", "code": 400}},
        401: {"error": "Unauthorized"},
        429: {"detail": "Too many requests, try again later"},
    }
    return json.dumps(said[status]).encode() if status in said else b"Internal Server Error"


def _data(event: dict[str, Any], *, escape: bool = False) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=escape, separators=(",", ":")).encode() + b"\n\n"
