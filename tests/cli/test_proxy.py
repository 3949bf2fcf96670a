"""`sparkctl proxy` as a user calls it: an alarm in the ledger, figures at the end, and words about a wrong call."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ledger.journal import Journal

from ..program import Ended, Program
from ..proxy.conftest import DONE, END, ROLE, chunk, sse, texts
from ..tuner.conftest import ScriptedServer, Step, server

__all__ = ["server"]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program with a state folder of its own."""
    return Program(tmp_path / "state")


def collapsing(body: dict[str, Any]) -> tuple[int, list[Step]]:
    """Collapse unless read in full."""
    if "vllm_xargs" in body:
        return 200, [sse(ROLE), sse(chunk("mended")), sse(END), DONE]
    return 200, [sse(ROLE), *(sse(chunk("odd ", -20.0)) for _ in range(3)), sse(END), DONE]


def test_an_alarm_is_told_counted_and_in_the_ledger(program: Program, server: ScriptedServer) -> None:
    """The reply is repaired, and Ctrl-C ends the verb with 0 and its figures."""
    server.script = collapsing
    running = program.start("proxy", "--url", server.url, "--model", "m", "--listen", "127.0.0.1:0", "--json")
    assert running.stderr
    found = re.search(r"http://127\.0\.0\.1:(\d+)", running.stderr.readline())
    assert found
    with httpx.Client(trust_env=False) as http:
        asked = {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "temperature": 0,
        }
        got = http.post(f"http://127.0.0.1:{found[1]}/v1/chat/completions", json=asked)
    assert texts(got.content) == "odd odd mended"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert running.returncode == 0
    assert json.loads(out)["alarms"] == {"improbable: continued": 1}
    assert "alarm at token 3" in err
    (row,) = Journal(program.state / "ledger.jsonl").read().rows
    assert row.kind == "alarm"
    assert (row.body["reason"], row.body["action"], row.body["late_tokens"]) == ("improbable", "continue", 2)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--listen", "8100"), "wanted ADDRESS:PORT"),
        (("--hold", "-1"), "wanted 0 to 4096 tokens"),
        (("--calibrate", "x.json", "--off"), "--calibrate goes without"),
        (("--thresholds", "no.json"), "no.json"),
        (("--listen", "203.0.113.9:1"), "cannot be listened on"),
    ],
)
def test_a_wrong_call_says_what_was_wanted(
    called: Callable[..., Ended], flags: tuple[str, ...], said: str
) -> None:
    """Exit code 2, no traceback."""
    ended = called("proxy", "--url", "http://127.0.0.1:9", "--model", "m", *flags)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err
