"""The reply to a completion request: a stream of events, one a step, or one document."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from rehearsal.engine.asked import Asked, Served

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

_CALL = re.compile(r"<tool_call>(.*)</tool_call>", re.DOTALL)


class Client(NamedTuple):
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def is_gone(self) -> bool:
        """Whether nobody will read what is written."""
        return self.writer.is_closing() or self.reader.at_eof()


class Reply:
    """Turns an answer's steps into one reply, streamed or whole."""

    def __init__(self, asked: Asked, served: Served, prompt_tokens: int, client: Client) -> None:
        self._asked = asked
        self._served = served
        self._prompt_tokens = prompt_tokens
        self._client = client
        self._text: list[str] = []
        self._tokens = 0
        self._began = False
        self.failed = False
        self.cached_tokens = 0
        self.prompt_logprobs: list[Any] | None = None
        self.finished = asyncio.Event()
        kind = ("chatcmpl-", "chat.completion") if asked.is_chat else ("cmpl-", "text_completion")
        self._id, self._object = kind[0] + secrets.token_hex(12), kind[1]
        self._created = int(time.time())

    def take(self, text: str, tokens: int, reason: str) -> bool:
        """Send what one step yielded; False once the client has gone."""
        if self._client.is_gone:
            self.finished.set()
            return False
        self._tokens += tokens
        if reason == "fault":
            self._fail()
        elif self._asked.stream:
            self._stream(text, reason)
        else:
            self._text.append(text)
            if reason:
                self._send_whole(reason)
        if reason:
            self.finished.set()
        return True

    def _fail(self) -> None:
        self.failed = True
        if self._asked.stream:
            self._begin()
            fault = {
                "message": "EngineCore encountered an issue.",
                "type": "InternalServerError",
                "code": 500,
            }
            self._write([f"data: {json.dumps({'error': fault})}\n\n", "data: [DONE]\n\n"], last=True)

    def _stream(self, text: str, reason: str) -> None:
        events = []
        if not self._began and self._asked.is_chat:
            events.append(
                self._event([self._choice({"role": "assistant", "content": ""}, "")], self._told(0))
            )
        self._begin()
        events.append(self._event([self._choice({"content": text}, reason)], self._told(self._tokens)))
        if reason:
            if self._asked.usage:
                events.append(self._event([], self._usage()))
            events.append("data: [DONE]\n\n")
        self._write(events, last=bool(reason))

    def _begin(self) -> None:
        if not self._began:
            self._began = True
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
            self._client.writer.write(head.encode())

    def _write(self, events: list[str], *, last: bool) -> None:
        parts = [event.encode() for event in events]
        # One HTTP chunk an event, all in one write: a client sees a step's events together.
        wire = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        self._client.writer.write(wire + (b"0\r\n\r\n" if last else b""))

    def _choice(self, delta: dict[str, str], reason: str) -> dict[str, Any]:
        body: dict[str, Any] = {"delta": delta} if self._asked.is_chat else {"text": delta["content"]}
        return {"index": 0, **body, "logprobs": None, "finish_reason": reason or None}

    def _told(self, tokens: int) -> dict[str, Any] | None:
        """Return what an event with text tells of the tokens so far, where the client asked for it."""
        if not self._asked.counts:
            return None
        total = self._prompt_tokens + tokens
        return {"prompt_tokens": self._prompt_tokens, "total_tokens": total, "completion_tokens": tokens}

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> str:
        body: dict[str, Any] = {
            "id": self._id,
            "object": f"{self._object}.chunk" if self._asked.is_chat else self._object,
            "created": self._created,
            "model": self._served.name,
            "choices": choices,
        }
        if usage:
            body["usage"] = usage
        return f"data: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}\n\n"

    def _usage(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self._prompt_tokens,
            "total_tokens": self._prompt_tokens + self._tokens,
            "completion_tokens": self._tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens} if self._served.details else None,
        }

    def _send_whole(self, reason: str) -> None:
        text = "".join(self._text)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        call = _call(text, self._asked.tools)
        if call:
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        plain = {"text": text, "prompt_logprobs": self.prompt_logprobs}
        shown: dict[str, Any] = {"message": message} if self._asked.is_chat else plain
        body = {
            "id": self._id,
            "object": self._object,
            "created": self._created,
            "model": self._served.name,
            "choices": [{"index": 0, **shown, "logprobs": None, "finish_reason": reason}],
            "usage": self._usage(),
        }
        send(self._client, 200, "application/json", json.dumps(body, ensure_ascii=False))


def _call(text: str, tools: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the tool call that an answer is, as vLLM's parsers make it; None for an answer that is text."""
    found = _CALL.fullmatch(text.strip()) if tools else None
    try:
        told = json.loads(found[1]) if found else {}
        name, arguments = told["name"], json.dumps(told["arguments"])
    except (ValueError, KeyError, TypeError):
        return None
    if name not in tools:
        return None
    identity = f"chatcmpl-tool-{secrets.token_hex(16)}"
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def send(client: Client, status: int, kind: str, text: str) -> None:
    """Write a whole answer."""
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    client.writer.write(head.encode() + body)
