"""The bench against a server whose every byte and pause is known."""

import json
from dataclasses import replace
from typing import Any

import pytest

from launcher.vitals import Vitals
from sparkctl.clock import PacedClock
from sparkctl.errors import Unclear, UsageFault
from tuner.bench import Bench, Endpoint, Look, run
from tuner.metrics import measure
from tuner.voids import of_bench as voids
from tuner.workload import BURST, SENTINEL, WARM_UP, Cell, WarmUp, Workload, digest

DONE = b"data: [DONE]\n\n"


def event(**fields: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(text: str | None, reason: str | None = None) -> bytes:
    """One event with a piece of text."""
    return event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": reason}])


def usage(prompt: int, completion: int) -> bytes:
    """The usage event."""
    return event(choices=[], usage={"prompt_tokens": prompt, "completion_tokens": completion})


@pytest.fixture
def small(quick: Workload) -> Workload:
    """A workload of two warm-ups and one cell of three streams."""
    cell = Cell(
        name="c3",
        kind="decode",
        concurrency=3,
        rounds=1,
        prompts=("code", "prose"),
        metrics={"c3_agg_tok_s": "aggregate"},
    )
    warm_up = WarmUp(prompt="summary", agree=2, within=5.0, most=2)
    return replace(quick, warm_up=warm_up, burst=False, sentinel=None, cells=(cell,), limit_s=5.0)


def bench(server: Any, workload: Workload, clock: PacedClock | None = None, look: Look = tuple) -> Bench:
    """Run a workload against the scripted server."""
    return run(
        Endpoint(url=server.url, model="m"),
        workload,
        run_tag="t",
        clock=clock or PacedClock(),
        report=lambda _: None,
        look=look,
    )


def test_tokens_come_from_usage_and_times_from_arrival(server: Any, small: Workload) -> None:
    """Two chunks hold 41 tokens; the first comes after 0.1 s, the last 0.2 s later, the end another 0.5 s later."""
    server.script = lambda _: (
        200,
        [0.1, delta("many tokens"), 0.2, delta(" more", "length"), 0.5, usage(9, 41), DONE],
    )
    request = bench(server, small).requests[-1]
    assert (request.prompt_tokens, request.completion_tokens, request.fault) == (9, 41, "")
    assert request.text == "many tokens more"
    assert 0.1 <= request.ttft_s < 0.3 <= request.total_s < 0.8


def test_streams_of_a_round_are_in_flight_together(server: Any, small: Workload) -> None:
    """Three streams on three connections; what each sends is the contract of the chat endpoint."""
    server.script = lambda _: (200, [0.1, delta("a"), 0.05, delta("b", "stop"), usage(9, 2), DONE])
    found = bench(server, small)
    assert server.most_in_flight == 3
    sent = [request.sent_s for request in found.requests if request.cell == "c3"]
    assert max(sent) - min(sent) < 0.1
    body = server.bodies[-1]
    content = body.pop("messages")[0]["content"]
    assert content.startswith("[t c3 r0 s")
    assert body == {
        "model": "m",
        "max_tokens": 160,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "chat_template_kwargs": {"thinking": False},
    }


def test_result_says_what_it_is(server: Any, small: Workload) -> None:
    """The bench carries the workload's digest, its run tag and the client's own share of a core."""
    server.script = lambda _: (200, [delta("a"), 0.3, delta("b", "length"), usage(9, 160), DONE])
    found = bench(server, small)
    assert (found.workload_digest, found.run_tag) == (digest(small), "t")
    assert 0 < found.client_cpu_share <= 1.5
    assert found.seconds > 0.05
    assert voids(found) == ()
    assert [metric.name for metric in measure(found)] == ["c3_agg_tok_s"]


def test_a_bench_warms_up_bursts_and_asks_the_sentinel_around_each_cell(server: Any, small: Workload) -> None:
    """Two replies that agree end the warm-up; then six streams at once, and one question alone before and after the cell."""
    server.script = lambda _: (200, [delta("a"), 0.2, delta("b", "length"), usage(9, 160), DONE])
    looked: list[int] = []

    def look() -> tuple[Vitals, ...]:
        looked.append(server.in_flight)
        return (Vitals(node="spark-a0", unread=("gpu: made up",)),)

    whole = replace(
        small, warm_up=WarmUp(prompt="code", agree=2, within=2.0, most=9), burst=True, sentinel="prose"
    )
    found = bench(server, whole, look=look)
    cells = [request.cell for request in found.requests]
    assert cells == [WARM_UP] * 2 + [BURST] * 3 + [SENTINEL] + ["c3"] * 3 + [SENTINEL]
    assert len(looked) == len(found.brackets) == 2
    assert found.brackets[0].nodes[0].node == "spark-a0"
    # 159 tokens after the first, 0.2 s: without counters of drafts each token is a step.
    assert [bracket.step_s for bracket in found.brackets] == [pytest.approx(0.2 / 159, rel=0.5)] * 2


def test_a_warm_up_that_does_not_settle_ends_and_voids(server: Any, small: Workload) -> None:
    """Replies that go on getting faster are asked for no longer than the workload says; the figures are not counted."""
    pauses = iter([0.4, 0.2, 0.1] + [0.05] * 9)
    server.script = lambda _: (200, [delta("a"), next(pauses), delta("b", "length"), usage(9, 160), DONE])
    found = bench(server, replace(small, warm_up=WarmUp(prompt="code", agree=2, within=0.03, most=3)))
    assert len(found.of(WARM_UP)) == 3
    assert "the engine was not warm" in voids(found)[0]


def test_a_warm_up_without_a_rate_goes_on_to_the_cells(server: Any, small: Workload) -> None:
    """A reply without usage will never agree with another: asking on would cost minutes and tell nothing."""
    server.script = lambda _: (200, [delta("a"), 0.05, delta("b", "length"), DONE])
    found = bench(server, replace(small, warm_up=WarmUp(prompt="code", agree=2, most=9)))
    assert len(found.of(WARM_UP)) == 1
    assert "no usage block" in voids(found)[0]


def test_times_are_the_lines_own(server: Any, small: Workload) -> None:
    """At a pace of 20 a pause of 0.05 s of ours is one second of the line."""
    server.script = lambda _: (200, [delta("a"), 0.05, delta("b", "stop"), usage(9, 2), DONE])
    request = bench(server, small, PacedClock(20.0)).requests[-1]
    assert 1.0 <= request.total_s < 5.0


def test_missing_usage_voids(server: Any, small: Workload) -> None:
    """A server that sends no usage block gives requests without counts, and a bench without figures."""
    server.script = lambda _: (200, [delta("a"), delta("b", "stop"), DONE])
    found = bench(server, small)
    assert found.requests[-1].completion_tokens is None
    assert "no usage block" in voids(found)[0]
    assert measure(found) == ()


def test_http_error_is_the_requests_fault_and_ends_the_bench(server: Any, small: Workload) -> None:
    """The body's message is kept; after the faulty warm-up no cell is sent."""
    server.script = lambda _: (500, [b'{"error": {"message": "EngineCore died"}}'])
    found = bench(server, small)
    assert [request.fault for request in found.requests] == ["HTTP 500: EngineCore died"]
    assert "EngineCore died" in voids(found)[0]


def test_faulty_stream_spares_its_neighbours(server: Any, small: Workload) -> None:
    """Of three streams one loses its connection; what it said until then and the other two are kept."""

    def script(body: dict[str, Any]) -> tuple[int, list[Any]]:
        if " s1]" in body["messages"][0]["content"]:
            return 200, [delta("half"), 0.02, None]
        return 200, [delta("a"), 0.05, delta("b", "stop"), usage(9, 2), DONE]

    server.script = script
    first, second, third = [one for one in bench(server, small).requests if one.cell == "c3"]
    assert (first.fault, third.fault) == ("", "")
    assert second.text == "half"
    assert second.fault.startswith("ClientPayloadError")


def test_stall_ends_at_the_time_limit(server: Any, small: Workload) -> None:
    """A line that stops in the middle costs the workload's limit, in the line's seconds, and no more."""
    server.script = lambda _: (200, [delta("a"), 3.0])
    found = bench(server, replace(small, limit_s=4.0), PacedClock(40.0))
    assert [request.fault for request in found.requests] == ["not finished within the time limit of 4 s"]
    assert found.requests[0].text == "a"


def test_nobody_there_is_unclear(small: Workload) -> None:
    """An address where nothing listens is no measurement at all."""
    with pytest.raises(Unclear, match="no answer: ClientConnectorError"):
        run(
            Endpoint(url="http://127.0.0.1:1", model="m"),
            small,
            run_tag="t",
            clock=PacedClock(),
            report=lambda _: None,
        )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://host:port", "Invalid port"),
        ("http://127.0.0.1:99999", "the port is 99999, wanted 1 to 65535"),
        ("http://127.0.0.1:0", "the port is 0, wanted 1 to 65535"),
        ("http://127.0.0.1:-1", "the port is -1, wanted 1 to 65535"),
        ("10.0.0.1:8000", "the scheme is missing, wanted http or https"),
        ("localhost:8000", "the scheme is localhost, wanted http or https"),
        ("ftp://10.0.0.1", "the scheme is ftp, wanted http or https"),
        ("", "the scheme is missing"),
        ("http://", "no host"),
        ("http:///v1", "no host"),
        ("http://xn--:8000", "A-label"),
        ("http://10.0.0.1:8000/?a=b", "a query or fragment"),
    ],
)
def test_address_that_is_none_is_a_usage_fault(small: Workload, url: str, said: str) -> None:
    """Whatever is wrong with it is the user's to mend: exit 2 with how to write one, before anything is sent."""
    with pytest.raises(UsageFault, match="not an address") as caught:
        run(Endpoint(url=url, model="m"), small, run_tag="t", clock=PacedClock(), report=lambda _: None)
    assert said in caught.value.message
    assert "http://HOST:PORT" in caught.value.hint
