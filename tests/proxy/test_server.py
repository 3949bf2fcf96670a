"""The proxy on real sockets: what goes through unchanged, what is repaired, and what happens when either side leaves."""

import asyncio
import gzip
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from aiohttp import web

from proxy.depth import Depths
from proxy.tally import Event
from proxy.thresholds import Limits, Threshold, Thresholds

from .conftest import DONE, END, ROLE, Bench, chunk, sse, streamed, texts

Make = Callable[..., Bench]
ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True, "temperature": 0}
GOOD = [f"w{number} " for number in range(20)]
BAD = ["odd ", "odder ", "oddest "]
REST = [ROLE, chunk("mended "), chunk("end"), END]


def sound(*pieces: str) -> list[bytes]:
    """Return a whole stream of these pieces."""
    return [sse(ROLE), *(sse(chunk(piece)) for piece in pieces), sse(END), DONE]


def collapsing() -> list[bytes]:
    """Return a stream whose last three tokens before the end are improbable."""
    pieces = [*(chunk(piece) for piece in GOOD), *(chunk(piece, -20.0) for piece in BAD), chunk("salad"), END]
    return [sse(ROLE), *map(sse, pieces), DONE]


async def mending(request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
    """Collapse unless read in full."""
    if body.get("vllm_xargs") == {"sparkctl_full": True}:
        return await streamed(request, [*map(sse, REST), DONE])
    return await streamed(request, collapsing())


def ask(url: str, body: dict[str, Any] | None = None, path: str = "/v1/chat/completions") -> httpx.Response:
    """Ask once, without proxies of the environment."""
    with httpx.Client(trust_env=False, timeout=20) as http:
        return http.post(f"{url}{path}", json=body or ASKED)


def take(url: str, got: list[bytes], wait_s: float = 0.0) -> None:
    """Read a stream into `got`, from so many seconds after its head."""
    with (
        httpx.Client(trust_env=False) as http,
        http.stream("POST", f"{url}/v1/chat/completions", json=ASKED) as answer,
    ):
        time.sleep(wait_s)
        got.extend(answer.iter_raw())


def raised(made: Bench, number: int = 1) -> list[Event]:
    """Wait for alarms, which are told on a thread of their own."""
    until = time.monotonic() + 5
    while len(made.raised) < number and time.monotonic() < until:
        time.sleep(0.01)
    return made.raised


def test_logprobs_are_asked_for_and_hidden(bench: Make) -> None:
    """A client that did not ask gets, byte for byte, what a server without log-probabilities would have sent."""
    made = bench(lambda request, _: streamed(request, sound(*GOOD)))
    got = ask(made.url)
    assert made.seen[0]["logprobs"] is True
    assert made.seen[0]["top_logprobs"] == 0
    plain = [
        sse(ROLE),
        *(sse(chunk(one, None)) for one in GOOD),
        sse(chunk("", None, finish_reason="stop")),
        DONE,
    ]
    assert got.content == b"".join(plain)
    assert got.headers["x-request-id"] == "r1"


def test_logprobs_that_were_asked_for_stay(bench: Make) -> None:
    """Neither the request nor a byte of the stream is another."""
    made = bench(lambda request, _: streamed(request, sound(*GOOD)))
    body = {**ASKED, "logprobs": True, "top_logprobs": 2}
    assert ask(made.url, body).content == b"".join(sound(*GOOD))
    assert made.seen == [body]


def test_a_collapsing_reply_is_continued_with_full_reads(bench: Make) -> None:
    """Without holding back, the client keeps what it saw; the token that raised the alarm and all after it are never seen."""
    made = bench(mending)
    got = ask(made.url)
    kept = "".join([*GOOD, *BAD[:2]])
    assert texts(got.content) == f"{kept}mended end"
    assert got.content.count(b'"role"') == 1
    second = made.seen[1]
    assert second["messages"][-1] == {"role": "assistant", "content": kept}
    assert (second["continue_final_message"], second["add_generation_prompt"]) == (True, False)
    (event,) = raised(made)
    alarm = event.alarm
    assert (alarm.sign.reason, alarm.action, alarm.late_tokens, alarm.dropped_tokens) == (
        "improbable",
        "continue",
        2,
        1,
    )
    assert made.proxy
    assert made.proxy.tally.alarms == {"improbable: continued": 1}


SURPRISED = Thresholds(
    thresholds=(Threshold(temperature=1.0, logprob=-11.5, surprise=3.0, replies=473, alarms=1),)
)


def drifting() -> list[bytes]:
    """Return a stream of which no token is very improbable, and all are fairly so after the first twenty."""
    pieces = [*(chunk(piece) for piece in GOOD), *(chunk(f"d{number} ", -5.0) for number in range(70)), END]
    return [sse(ROLE), *map(sse, pieces), DONE]


async def steadied(request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
    """Drift unless read in full."""
    if "vllm_xargs" in body:
        return await streamed(request, [*map(sse, REST), DONE])
    return await streamed(request, drifting())


def test_a_drifting_reply_is_continued_when_the_mean_rises(bench: Make) -> None:
    """Held back far enough, the client sees what stood before the first fairly improbable token, and the rest read in full."""
    made = bench(steadied, hold=64, thresholds=SURPRISED)
    assert texts(ask(made.url).content) == "".join(GOOD) + "mended end"
    (event,) = raised(made)
    alarm = event.alarm
    # The window holds 20 tokens of 0.1 and 44 of 5 nats at the 64th, 3.47 in the mean: beyond 3 as soon as it is full.
    assert (alarm.sign.reason, alarm.action, alarm.at_tokens, alarm.sign.clean_tokens) == (
        "surprise",
        "continue",
        64,
        20,
    )
    assert (alarm.sign.measured, alarm.sign.wanted) == (
        "a mean surprise of 3.47 nats over 64 tokens",
        "at most 3",
    )
    assert event.limits == Limits(logprob=-11.5, surprise=3.0)
    assert made.proxy
    assert made.proxy.tally.alarms == {"surprise: continued": 1}


@pytest.mark.parametrize(
    ("temperature", "settings"),
    [(0, {}), (1.5, {"thresholds": SURPRISED}), (0, {"thresholds": SURPRISED, "off": True})],
    ids=["no limit", "beyond the last row", "off"],
)
def test_the_mean_is_not_watched_without_its_limit(
    bench: Make, temperature: float, settings: dict[str, Any]
) -> None:
    """Nor with --off: the drifting reply goes through."""
    made = bench(steadied, **settings)
    told = "".join([*GOOD, *(f"d{number} " for number in range(70))])
    assert texts(ask(made.url, {**ASKED, "temperature": temperature}).content) == told
    assert made.proxy
    assert made.proxy.tally.alarms == {}


def test_a_line_that_tells_no_log_probabilities_gives_no_mean(bench: Make) -> None:
    """The same words without them raise nothing, and a calibration notes a reply of no depth."""
    frames = [sse(chunk(f"d{number} ", None)) for number in range(90)]
    made = bench(lambda request, _: streamed(request, frames), thresholds=SURPRISED, calibrate=True)
    assert texts(ask(made.url).content) == "".join(f"d{number} " for number in range(90))
    assert made.proxy
    assert made.proxy.tally.alarms == {}
    until = time.monotonic() + 5
    while not made.proxy.tally.depths and time.monotonic() < until:
        time.sleep(0.01)
    assert made.proxy.tally.depths == {0.0: [Depths(logprob=0.0, surprise=0.0)]}


def test_a_drifting_reply_in_one_piece_is_asked_again(bench: Make) -> None:
    """All its tokens come in one document, and the mean over the last 64 of them is told."""

    async def answer(_: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        logprob = -0.1 if "vllm_xargs" in body else -5.0
        logprobs = {"content": [{"token": "x", "logprob": logprob}] * 64}
        message = {"role": "assistant", "content": "fine" if "vllm_xargs" in body else "salad"}
        return web.json_response(
            {"id": "1", "choices": [{"index": 0, "message": message, "logprobs": logprobs}]}
        )

    made = bench(answer, thresholds=SURPRISED)
    got = ask(made.url, {**ASKED, "stream": False}).json()
    assert got["choices"][0]["message"]["content"] == "fine"
    assert made.proxy
    assert made.proxy.tally.alarms == {"surprise: asked anew": 1}


def test_held_tokens_are_rolled_back_to_the_last_clean_point(bench: Make) -> None:
    """With the damage within what was held, the client sees none of it."""
    made = bench(mending, hold=8)
    assert texts(ask(made.url).content) == "".join(GOOD) + "mended end"
    assert raised(made)[0].alarm.late_tokens == 0


def test_a_refused_repair_leaves_the_reply_as_it_is(bench: Make) -> None:
    """The alarm is told, and nothing of the first stream is lost."""

    async def refusing(request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        if "vllm_xargs" in body:
            return web.json_response({"error": "no"}, status=400)
        return await streamed(request, collapsing())

    made = bench(refusing, hold=8)
    assert texts(ask(made.url).content) == "".join([*GOOD, *BAD, "salad"])
    (event,) = raised(made)
    assert (event.alarm.action, event.alarm.why) == ("tell", "the line refused the second request: HTTP 400")


def test_a_reply_in_one_piece_is_asked_again(bench: Make) -> None:
    """Nothing of it was sent, so the client gets the second in whole."""

    async def answer(_: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        full = "vllm_xargs" in body
        logprobs = {"content": [{"token": "x", "logprob": -0.1 if full else -20.0}] * 5}
        message = {"role": "assistant", "content": "fine" if full else "salad"}
        return web.json_response(
            {"id": "1", "choices": [{"index": 0, "message": message, "logprobs": logprobs}]}
        )

    made = bench(answer)
    got = ask(made.url, {**ASKED, "stream": False}).json()
    assert got["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "fine"}, "logprobs": None}
    ]
    assert raised(made)[0].alarm.action == "anew"


@pytest.mark.parametrize("path", ["/v1/embeddings", "/tokenize", "/no/such/page?x=%2F&y=a+b"])
def test_what_is_not_watched_goes_through_byte_for_byte(bench: Make, path: str) -> None:
    """Request and answer, status and headers, compressed as they are."""
    packed = gzip.compress(b'{"odd" : [1,2 ]}')

    async def answer(request: web.BaseRequest, _: dict[str, Any]) -> web.StreamResponse:
        return web.Response(
            status=418, body=packed, headers={"content-encoding": "gzip", "x-path": request.raw_path}
        )

    made = bench(answer)
    with httpx.Client(trust_env=False) as http:
        sent = http.build_request(
            "POST", made.url + path, content=b"\x00\xff odd", headers={"authorization": "Bearer k"}
        )
        got = http.send(sent, stream=True)
        assert b"".join(got.iter_raw()) == packed
    assert (got.status_code, got.headers["x-path"]) == (418, path)
    assert made.seen == [{"raw": "\x00\xff odd"}]
    assert made.heads[0]["authorization"] == "Bearer k"


def test_off_watches_nothing(bench: Make) -> None:
    """Not even a reply that collapses; the request is the client's."""
    made = bench(mending, off=True)
    assert ask(made.url).content == b"".join(collapsing())
    assert made.seen == [ASKED]


def test_a_refusal_is_that_of_the_clients_own_request(bench: Make) -> None:
    """A server that gives no log-probabilities serves as before."""

    async def answer(request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        if "logprobs" in body:
            return web.json_response({"error": {"message": "no logprobs here"}}, status=400)
        return await streamed(request, [sse(chunk(one, None)) for one in GOOD])

    made = bench(answer)
    assert texts(ask(made.url).content) == "".join(GOOD)
    assert made.seen[1] == ASKED


def test_a_stream_that_breaks_off_breaks_off_here_too(bench: Make) -> None:
    """What came arrives; what is missing is not passed off as an end."""
    made = bench(lambda request, _: streamed(request, sound(*GOOD)[:5], breaks=True))
    got: list[bytes] = []
    with pytest.raises(httpx.RemoteProtocolError):
        take(made.url, got)
    assert texts(b"".join(got)) == "".join(GOOD[:4])


def test_an_answer_in_one_piece_that_breaks_off_is_said_so(bench: Make) -> None:
    """Nothing of it was sent, so the client gets an error that it can read."""

    async def answer(request: web.BaseRequest, _: dict[str, Any]) -> web.StreamResponse:
        return await streamed(request, [b'{"choices":'], breaks=True)

    got = ask(bench(answer).url, {**ASKED, "stream": False})
    assert (got.status_code, got.json()["error"]["type"]) == (502, "upstream_unreachable")


def test_a_line_that_is_not_there_is_said_so(bench: Make) -> None:
    """In the form of an error that clients of OpenAI's API read."""
    made = bench(mending)
    assert made.proxy
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        made.proxy._upstream._address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        got = ask(made.url)
    assert got.status_code == 502
    assert got.json()["error"]["type"] == "upstream_unreachable"


@pytest.mark.parametrize("waits", ["before the first byte", "in the stream"])
def test_a_client_that_leaves_ends_its_request_upstream(bench: Make, waits: str) -> None:
    """A line does not go on for nobody."""

    async def answer(request: web.BaseRequest, _: dict[str, Any]) -> web.StreamResponse:
        if waits == "before the first byte":
            await asyncio.sleep(30)
        return await streamed(request, sound(*GOOD * 300), wait_s=0.02)

    made = bench(answer)
    head = json.dumps(ASKED).encode()
    with socket.create_connection(("127.0.0.1", made.port)) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(head) + head
        )
        until = time.monotonic() + 5
        while not made.seen and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
    while not made.ended and time.monotonic() < until:
        time.sleep(0.01)
    assert made.ended == ["/v1/chat/completions"]


def test_a_slow_client_gets_everything(bench: Make) -> None:
    """And holds up nobody: what it does not take stays upstream."""
    pieces = [f"{number} {chr(97 + number % 26) * 900} " for number in range(300)]
    made = bench(lambda request, _: streamed(request, [sse(chunk(one, None)) for one in pieces]))
    got: list[bytes] = []
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(take, made.url, got, 0.3)
        assert ask(made.url).status_code == 200
        slow.result()
    assert texts(b"".join(got)) == "".join(pieces)


def test_64_streams_at_once_are_each_their_own(bench: Make) -> None:
    """No reply gets another's words or alarm; every one is repaired by itself."""

    async def answer(request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        name = body["user"]
        if "vllm_xargs" in body:
            return await streamed(request, [*map(sse, REST), DONE])
        bad = -20.0 if int(name) % 2 else -0.1
        pieces = [chunk(f"{name}:{number} ", bad if number > 5 else -0.1) for number in range(12)]
        return await streamed(request, [sse(ROLE), *map(sse, pieces), sse(END), DONE], wait_s=0.01)

    made = bench(answer, hold=4)
    with ThreadPoolExecutor(64) as pool:
        replies = list(pool.map(lambda n: texts(ask(made.url, {**ASKED, "user": str(n)}).content), range(64)))
    for number, reply in enumerate(replies):
        last = 6 if number % 2 else 12
        told = "".join(f"{number}:{one} " for one in range(last))
        assert reply == told + ("mended end" if number % 2 else "")
    assert len(raised(made, 32)) == 32
