"""What a practice line streams, byte for byte where a client looks, without a cluster."""

import json
from typing import Any

import pytest

from rehearsal.engine import asked
from rehearsal.engine.asked import Served
from rehearsal.engine.reply import Client, Reply

SERVED = Served(name="m", model="m", max_model_len=100, garbles=False, calls_tools=False, details=True)


class Pipe:
    """Both ends of a connection that stays open."""

    written = b""

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.written += data

    @staticmethod
    def is_closing() -> bool:
        """It never is."""
        return False

    at_eof = is_closing


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"include_usage": True, "continuous_usage_stats": True}, [0, 1, 4, 6, 6]),
        ({"include_usage": True}, [None, None, None, None, 6]),
        ({"continuous_usage_stats": True}, [None, None, None, None]),
    ],
    ids=["in every event", "at the end", "not at all"],
)
def test_usage_is_told_where_it_was_asked_for(options: dict[str, Any], counts: list[int | None]) -> None:
    """As vLLM does: the role comes with 0, each event with what had come by then, and all stand at the end."""
    body = {"messages": [{"role": "user", "content": "hello"}], "stream": True, "stream_options": options}
    pipe: Any = Pipe()
    reply = Reply(asked.read(json.dumps(body).encode(), SERVED, is_chat=True), SERVED, 9, Client(pipe, pipe))
    for text, tokens, reason in (("a", 1, ""), ("b c d", 3, ""), ("e f", 2, "stop")):
        assert reply.take(text, tokens, reason)
    lines = [line for line in pipe.written.decode().splitlines() if line.startswith("data: {")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert [event.get("usage", {}).get("completion_tokens") for event in events] == counts
