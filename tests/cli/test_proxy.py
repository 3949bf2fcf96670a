"""`sparkctl proxy` as a user calls it: an alarm in the ledger, figures at the end, and words about a wrong call."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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


def drifting(body: dict[str, Any]) -> tuple[int, list[Step]]:
    """Say fairly improbable tokens only, unless read in full: then three, the least of which a calibration takes note."""
    if "vllm_xargs" in body:
        return 200, [sse(ROLE), *(sse(chunk("mended ", -6.0)) for _ in range(3)), sse(END), DONE]
    return 200, [sse(ROLE), *(sse(chunk(f"so{number} ", -5.0)) for number in range(70)), sse(END), DONE]


ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True, "temperature": 0}


@contextmanager
def proxied(program: Program, server: ScriptedServer, *flags: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run the proxy; give where to ask, and behind the block how it ended and all that it said."""
    told: dict[str, Any] = {}
    asked = ("--url", server.url, "--model", "m", "--listen", "127.0.0.1:0")
    running = program.start("proxy", *asked, *flags)
    assert running.stderr
    said, found = "", None
    while not found and (line := running.stderr.readline()):
        said += line
        found = re.search(r"http://127\.0\.0\.1:\d+(?= for)", line)
    assert found, said
    try:
        yield f"{found[0]}/v1/chat/completions", told
    finally:
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    told |= {"code": running.returncode, "err": said + err, "out": out}


def test_an_alarm_is_told_counted_and_in_the_ledger(program: Program, server: ScriptedServer) -> None:
    """The reply is repaired, and Ctrl-C ends the verb with 0 and its figures."""
    server.script = collapsing
    with proxied(program, server, "--json") as (url, told), httpx.Client(trust_env=False) as http:
        got = http.post(url, json=ASKED)
    assert texts(got.content) == "odd odd mended"
    assert told["code"] == 0
    assert json.loads(told["out"])["alarms"] == {"improbable: continued": 1}
    assert "alarm at token 3 (improbable): " in told["err"]
    assert "the mean surprise is not watched at any temperature: no limit is known" in told["err"]
    (row,) = Journal(program.state / "ledger.jsonl").read().rows
    assert row.kind == "alarm"
    assert (row.body["reason"], row.body["action"], row.body["late_tokens"]) == ("improbable", "continue", 2)
    assert (row.body["threshold"], row.body["surprise"]) == (-11.5, None)


def test_the_mean_is_watched_with_calibrated_thresholds(
    program: Program, server: ScriptedServer, tmp_path: Path
) -> None:
    """Calibrated on replies of the line itself, written, read again; its alarm is told, counted and in the ledger by its reason."""
    path = tmp_path / "thresholds.json"
    server.script = drifting
    with (
        proxied(program, server, "--calibrate", str(path)) as (url, told),
        httpx.Client(trust_env=False) as http,
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(lambda _: http.post(url, json=ASKED), range(304)))
    assert told["code"] == 0
    assert "the mean surprise is not watched at any temperature: wanted 473 healthy replies" in told["out"]
    assert "is not watched" not in told["err"]
    (row,) = json.loads(path.read_text(encoding="utf-8"))["thresholds"]
    assert row["replies"] >= 299
    assert (row["logprob"], row["surprise"]) == (-6.0, None)
    path.write_text(
        path.read_text(encoding="utf-8").replace('"surprise": null', '"surprise": 3.5'), encoding="utf-8"
    )
    with (
        proxied(program, server, "--thresholds", str(path)) as (url, told),
        httpx.Client(trust_env=False) as http,
    ):
        got = http.post(url, json=ASKED)
    assert texts(got.content) == "".join(f"so{number} " for number in range(63)) + "mended " * 3
    assert "1 x surprise: continued" in told["out"]
    assert "is not watched" not in told["err"]
    assert (
        "alarm at token 64 (surprise): a mean surprise of 5 nats over 64 tokens, wanted at most 3.5"
        in told["err"]
    )
    (kept,) = Journal(program.state / "ledger.jsonl").read().rows
    assert (kept.body["reason"], kept.body["surprise"]) == ("surprise", 3.5)


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
