"""What the API of a line says, asked over real HTTP: up, locked, down, and what it serves."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from launcher import api, canary
from launcher.api import Seen
from launcher.smoke import BURST, TOOL, Smoke, burst
from launcher.status import Verdict
from sparkctl.clock import PacedClock
from sparkctl.line import Line, Node, Rail

CLOCK = PacedClock()
MODELS = '{"object": "list", "data": [{"id": "m"}, {"id": "n"}]}'

Answer = tuple[int, str]


@dataclass
class Served:
    """A server on the loopback; `answers` maps a path to status and body, anything else is 404."""

    line: Line
    answers: dict[str, Answer] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    """The authorization of each request."""


@pytest.fixture
def served() -> Iterator[Served]:
    """A server whose answers the test fills in."""
    answers: dict[str, Answer] = {}
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("authorization", ""))
            status, body = answers.get(self.path, (404, "Not Found"))
            self.send_response(status)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Served(line=_line(server.server_port), answers=answers, heard=heard)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _line(port: int) -> Line:
    rail = Rail(interface="enp1s0f0np0", address="10.10.1.1", hca="rocep1s0f0")
    node = Node(name="a0", rank=0, host="127.0.0.1", port=22, user=None, key_file=None, rails=(rail,))
    return Line(
        name="A",
        nodes=(node,),
        recipe=None,
        api_host="127.0.0.1",
        api_port=port,
        master_port=29501,
        floors={},
        known_hosts=None,
        source="test",
    )


@pytest.mark.parametrize(
    ("answers", "seen"),
    [
        ({"/health": (200, ""), "/v1/models": (200, MODELS)}, Seen(health=200, serves=("m", "n"))),
        ({"/health": (200, ""), "/v1/models": (401, "{}")}, Seen(health=200, is_locked=True)),
        ({"/health": (401, '{"error":"Unauthorized"}')}, Seen(health=401, is_locked=True)),
        ({"/health": (403, "")}, Seen(health=403, is_locked=True)),
        ({"/health": (503, ""), "/v1/models": (200, MODELS)}, Seen(health=503)),
        ({"/health": (200, ""), "/v1/models": (200, "not JSON")}, Seen(health=200)),
        ({"/health": (200, ""), "/v1/models": (200, '{"data": [{}]}')}, Seen(health=200)),
        ({"/health": (200, ""), "/v1/models": (200, "[]")}, Seen(health=200)),
        ({}, Seen(health=404)),
    ],
)
def test_what_the_api_says_is_told_apart(served: Served, answers: dict[str, Answer], seen: Seen) -> None:
    """A server that wants a key is up, one whose engine has ended is not, and odd answers list nothing."""
    served.answers.update(answers)
    assert api.look(served.line, CLOCK) == seen
    assert seen.answers


def test_counters_come_as_text_or_not_at_all(served: Served) -> None:
    """/metrics is returned as it is; a status other than 200 is no page."""
    assert api.metrics_text(served.line, CLOCK) is None
    served.answers["/metrics"] = (200, "vllm:num_requests_running 1.0\n")
    assert api.metrics_text(served.line, CLOCK) == "vllm:num_requests_running 1.0\n"


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ((200, '{"choices": [{"message": {"content": "Paris"}}]}'), ""),
        ((200, '{"choices": []}'), "no usable reply"),
        ((401, "{}"), "HTTP 401"),
    ],
)
def test_a_smoke_is_asked_and_judged(served: Served, reply: Answer, fault: str) -> None:
    """A reply is judged; an answer that holds none says so with its status."""
    served.answers["/v1/chat/completions"] = reply
    asked = Smoke(
        name="fact", prompt="?", max_tokens=8, fault=lambda text: "" if text == "Paris" else "wrong"
    )
    (smoked,) = api.ask(served.line, "m", (asked,), CLOCK)
    assert smoked.fault.startswith(fault)
    assert bool(smoked.fault) == bool(fault)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (
            {
                "content": None,
                "tool_calls": [{"function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}],
            },
            "",
        ),
        (
            {"content": "It is sunny in Paris.", "tool_calls": []},
            "wanted a call of the tool get_weather, found none",
        ),
        ({"content": "<tool_call>"}, "wanted a call of the tool get_weather, found none"),
        (
            {"tool_calls": [{"function": {"name": "get_weather", "arguments": "{city}"}}]},
            "no usable reply (JSONDecodeError",
        ),
    ],
)
def test_a_tool_call_is_read_from_the_message(served: Served, message: dict[str, Any], fault: str) -> None:
    """What counts is the call that the engine read out of the text, not the text."""
    served.answers["/v1/chat/completions"] = (200, json.dumps({"choices": [{"message": message}]}))
    (smoked,) = api.ask(served.line, "m", (TOOL,), CLOCK)
    assert smoked.fault.startswith(fault)
    assert bool(smoked.fault) == bool(fault)


def test_a_burst_asks_at_once(served: Served) -> None:
    """Each request of a burst is another text, and all get their answers judged."""
    text = " ".join(map(str, range(1, 21)))
    served.answers["/v1/chat/completions"] = (200, json.dumps({"choices": [{"message": {"content": text}}]}))
    asked = burst(BURST, 8)
    assert len({one.prompt for one in asked}) == 8
    assert [one.fault for one in api.ask(served.line, "m", asked, CLOCK)] == [""] * 8


@pytest.mark.parametrize("broken", [lambda line: line, lambda line: replace(line, api_host="no host at all")])
def test_a_server_that_is_not_there_is_down(served: Served, broken: Callable[[Line], Line]) -> None:
    """No server and no address is no answer, without an exception."""
    line = broken(replace(served.line, api_port=1))
    assert api.look(line, CLOCK) == Seen(health=None)
    assert not api.look(line, CLOCK).answers
    assert api.metrics_text(line, CLOCK) is None


def test_a_line_with_a_key_is_asked_with_it(served: Served, tmp_path: Path) -> None:
    """Every request carries the key of the file; an API that refuses it is locked although a key was there."""
    kept = tmp_path / "key"
    kept.write_text("Zq7Zq7Zq7Zq7\n")
    kept.chmod(0o600)
    line = replace(served.line, api_key_file=str(kept))
    served.answers["/health"] = (200, "")
    served.answers["/v1/models"] = (200, MODELS)
    assert api.look(line, CLOCK).serves == ("m", "n")
    served.answers["/v1/models"] = (401, "")
    assert api.look(line, CLOCK) == Seen(health=200, is_locked=True, had_key=True)
    assert set(served.heard) == {"Bearer Zq7Zq7Zq7Zq7"}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ((200, '{"usage": {"completion_tokens": 1}}'), ""),
        ((200, '{"usage": {"completion_tokens": 0}}'), "wanted 1 token, the API counted 0"),
        ((200, "[]"), "no usable answer (TypeError"),
        (
            (500, '{"error": "EngineCore encountered an issue"}'),
            'HTTP 500: {"error": "EngineCore encountered',
        ),
    ],
)
def test_a_canary_is_one_token(served: Served, answer: Answer, fault: str) -> None:
    """A line that serves gives a token; anything else is told, and is no line that serves."""
    served.answers["/v1/completions"] = answer
    seen = canary.ask(served.line, "m", CLOCK)
    assert seen.fault.startswith(fault)
    verdict = canary.judge(Verdict(state="serving", note="every rank runs"), seen)
    assert (verdict.state == "serving") == (fault == "")
    assert seen.fault in verdict.note
