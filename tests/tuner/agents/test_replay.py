"""The closed loop against a server whose every byte and pause is known: when each call starts, and what it sends."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkctl.clock import PacedClock
from sparkctl.errors import Unclear
from tuner.agents import calibration, replay, report, session, source
from tuner.agents.exchange import Level
from tuner.agents.filler import Voice
from tuner.agents.session import Load, Session, Turn
from tuner.client import Endpoint

DATA = Path(__file__).parent / "data"
DONE = b"data: [DONE]\n\n"
VOICE = Voice(words=tuple(f"w{n}" for n in range(150)), characters_a_token=4.0)
EARLY_S = 1e-6
"""What two readings of one clock may differ by in floating point."""


def event(**fields: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def characters(body: dict[str, Any]) -> int:
    """Characters of a request's prompt."""
    return sum(len(json.dumps(one["content"])) for one in body["messages"])


def answering(body: dict[str, Any], pause_s: float = 0.01) -> tuple[int, list[Any]]:
    """Answer with words that name the prompt's length, in two pieces, and count four characters a token."""
    said = f"There are {characters(body)} characters before me, which I have read with care."
    choice = {"index": 0, "delta": {"content": said}, "finish_reason": None}
    last = {"index": 0, "delta": {"content": " The end."}, "finish_reason": "length"}
    usage = {"prompt_tokens": characters(body) // 4, "completion_tokens": body["max_tokens"]}
    return 200, [
        event(choices=[choice]),
        pause_s,
        event(choices=[last]),
        event(choices=[], usage=usage),
        DONE,
    ]


def run(server: Any, load: Load, live: int, **options: Any) -> Level:
    """Run one level."""
    voice = VOICE if load.words == "filler" else None
    given: dict[str, Any] = {"idle_cap_s": 10.0, "most_s": None, "clock": PacedClock(), **options}
    return replay.run(
        Endpoint(url=server.url, model="m"),
        load,
        live=live,
        voice=voice,
        run_tag="t",
        report=lambda _: None,
        **given,
    )


def own(number: int = 1, waits: tuple[float, ...] = (0.0, 0.05, 0.05)) -> Load:
    """Sessions in which the model's own answers stand between."""

    def turn(i: int, wait_s: float) -> Turn:
        return Turn(
            i=i,
            after=(i - 1,) if i else (),
            wait_s=wait_s,
            why="user",
            agent="main",
            max_tokens=20,
            messages=({"role": "user", "content": f"This is question number {i} of the session."},),
            base=i - 1 if i else None,
            answers=bool(i),
        )

    turns = tuple(turn(i, wait_s) for i, wait_s in enumerate(waits))
    return Load(
        name="own",
        digest="d",
        words="own",
        sessions=tuple(Session(id=f"s{n}", turns=turns) for n in range(number)),
        body={"chat_template_kwargs": {"thinking": False}},
        limit_s=5.0,
    )


def traced(name: str) -> Load:
    """Plan a data file."""
    found = source.read((DATA / name).read_text(encoding="utf-8").splitlines(), source=name)
    assert found is not None
    return session.of_trace(found, name)


def test_a_prompt_grows_by_the_models_own_answer(server: Any) -> None:
    """What the second call sends begins with all that the first one sent and was told, character by character."""
    server.script = answering
    level = run(server, own(), 1)
    sent = [body["messages"] for body in server.bodies]
    assert [len(one) for one in sent] == [1, 3, 5]
    assert sent[0][0]["content"].startswith("[rid:")
    for before, after, told in zip(sent, sent[1:], level.exchanges, strict=False):
        assert after[: len(before)] == before
        assert after[len(before)] == {"role": "assistant", "content": told.text}
    assert report.voids(level) == ()
    assert [one.end for one in level.sessions] == ["ended"]


def test_what_is_sent_is_the_contract_of_the_chat_endpoint(server: Any) -> None:
    """Our own sessions force no length."""
    server.script = answering
    run(server, own(waits=(0.0,)), 1)
    body = server.bodies[0]
    body.pop("messages")
    assert body == {
        "model": "m",
        "max_tokens": 20,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "chat_template_kwargs": {"thinking": False},
    }


def test_thoughts_stay_out_of_the_history(server: Any) -> None:
    """A reasoning model's thoughts are timed and judged, and are no part of the next prompt."""

    def thinking(body: dict[str, Any]) -> tuple[int, list[Any]]:
        thought = {"index": 0, "delta": {"reasoning": "Let me see what this is. "}, "finish_reason": None}
        status, steps = answering(body)
        return status, [event(choices=[thought]), *steps]

    server.script = thinking
    level = run(server, own(), 1)
    assert "Let me see" in level.exchanges[0].text
    assert "Let me see" not in server.bodies[1]["messages"][1]["content"]


def test_so_many_sessions_are_live_and_no_more(server: Any) -> None:
    """Six sessions, three at a time: a lane takes the next one when its own has ended."""
    server.script = lambda body: answering(body, 0.05)
    level = run(server, own(6), 3)
    assert server.most_in_flight == 3
    assert len(level.exchanges) == 18
    for at in level.sessions:
        assert sum(one.began_s <= at.began_s < one.ended_s for one in level.sessions) <= 3


def test_a_wait_counts_from_the_end_and_is_capped(server: Any) -> None:
    """0.3 s are waited after the answer, not after the question; 60 s become the cap."""
    server.script = lambda body: answering(body, 0.2)
    first, second, third = run(server, own(waits=(0.0, 0.3, 60.0)), 1, idle_cap_s=0.5).exchanges
    assert 0.3 <= second.sent_s - first.ended_s < 0.4
    assert 0.5 <= third.sent_s - second.ended_s < 0.6
    assert first.ended_s - first.sent_s >= 0.2


def test_waits_are_the_lines_seconds(server: Any) -> None:
    """At a pace of 20 a wait of 4 s of the line is 0.2 s of ours."""
    server.script = answering
    level = run(server, own(waits=(0.0, 4.0)), 1, clock=PacedClock(20.0))
    first, second = level.exchanges
    assert 4.0 <= second.sent_s - first.ended_s < 6.0


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_call_starts_after_all_it_waits_for(server: Any, data: st.DataObject) -> None:
    """Whatever the graph: no call starts before the last of its `after` has ended and its wait is over, nor much later."""
    turns: list[Turn] = []
    for i in range(data.draw(st.integers(1, 7))):
        after = tuple(data.draw(st.lists(st.integers(0, i - 1), unique=True))) if i else ()
        wait_s = data.draw(st.sampled_from([0.0, 0.01, 0.05]))
        text = ({"role": "user", "content": f"Question {i} stands alone here."},)
        turns.append(
            Turn(i=i, after=after, wait_s=wait_s, why="", agent="main", max_tokens=20, messages=text)
        )
    load = replace(own(), words="recorded", sessions=(Session(id="g", turns=tuple(turns)),))
    server.script = answering
    level = run(server, load, 2)
    assert len(level.exchanges) == 2 * len(turns)
    for copy in (0, 1):
        made = {one.i: one for one in level.exchanges if one.copy == copy}
        began_s = next(one.began_s for one in level.sessions if one.copy == copy)
        for turn in turns:
            ready_s = max((made[one].ended_s for one in turn.after), default=began_s) + turn.wait_s
            assert ready_s - EARLY_S <= made[turn.i].due_s
            assert made[turn.i].due_s - EARLY_S <= made[turn.i].sent_s < ready_s + 0.25


def test_recorded_answers_are_sent_and_own_ones_dropped(server: Any) -> None:
    """A trace with messages sends its own assistant's words, tool calls and all."""
    server.script = answering
    level = run(server, traced("messages.agent.jsonl"), 1)
    last = next(body for body in server.bodies if len(body["messages"]) == 6)
    assert [one["role"] for one in last["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert last["messages"][2]["tool_calls"][0]["function"]["name"] == "ls"
    assert not any("characters before me" in json.dumps(body["messages"]) for body in server.bodies)
    assert "ignore_eos" not in last
    assert report.voids(level) == ()


def test_filler_forces_lengths_and_keeps_prefixes(server: Any) -> None:
    """Prompts are as long as recorded and begin alike; an answer has exactly the recorded tokens."""
    server.script = answering
    load = traced("weka-subagents.agent.jsonl")
    level = run(server, load, 1, idle_cap_s=0.02)
    by_call = {one.i: one for one in level.exchanges}
    assert {i: one.completion_tokens for i, one in by_call.items()} == {
        turn.i: turn.max_tokens for turn in load.sessions[0].turns
    }
    sent = {characters(body): body for body in server.bodies}
    assert all(body["ignore_eos"] is True for body in server.bodies)
    short, longer = (sent[size]["messages"][0]["content"] for size in sorted(sent)[-2:])
    assert longer.startswith(short)
    assert report.voids(level) == ()


def test_an_endpoint_that_ignores_forced_lengths_is_void(server: Any) -> None:
    """A server that stops where it likes gives no speed for a recorded length."""

    def short(body: dict[str, Any]) -> tuple[int, list[Any]]:
        return answering({**body, "max_tokens": 3})

    server.script = short
    voids = report.voids(run(server, traced("weka-subagents.agent.jsonl"), 1, idle_cap_s=0.0))
    assert "3 completion tokens, wanted the 40 that were forced" in voids[0]


def test_a_failed_call_ends_the_level(server: Any) -> None:
    """No call begins after a failed one; its session failed, the others were cut, and the headline counts it."""

    def failing(body: dict[str, Any]) -> tuple[int, list[Any]]:
        if len(body["messages"]) == 3:
            return 500, [b'{"error": {"message": "EngineCore died"}}']
        return answering(body)

    server.script = failing
    level = run(server, own(4, (0.0, 0.05, 0.3)), 2)
    ends = [one.end for one in level.sessions]
    assert "failed" in ends
    assert "ended" not in ends
    assert max(len(body["messages"]) for body in server.bodies) == 3
    voids = report.voids(level)
    failed = sum(bool(one.fault) for one in level.exchanges)
    assert voids[0] == f"{failed} of {len(level.exchanges)} calls failed, wanted none"
    assert "EngineCore died" in voids[1]
    assert report.figures(level).failed == failed


def test_time_is_up(server: Any) -> None:
    """With a limit no call begins after it; what was cut is no ended session, and no fault."""
    server.script = answering
    level = run(server, own(1, (0.0, 0.05, 5.0)), 1, most_s=0.3)
    assert len(level.exchanges) == 2
    assert [one.end for one in level.sessions] == ["cut"]
    found = report.figures(level)
    assert (found.sessions_ended, found.sessions_cut, found.sessions_per_min) == (0, 1, None)
    assert report.voids(level) == ()


def test_a_connection_that_the_server_closed_is_renewed(server: Any) -> None:
    """A server may close what idles (vLLM after 5 s); the next call of a session must not fail for it."""
    # An empty piece ends the body; 0.1 s later the server drops the connection.
    server.script = lambda body: (200, [*answering(body)[1], b"", 0.1, None])
    level = run(server, own(waits=(0.0, 0.6)), 1)
    assert [one.fault for one in level.exchanges] == ["", ""]


def test_characters_a_token_are_the_servers(server: Any) -> None:
    """The sample is counted by the server, and the voice takes its figure."""
    server.script = lambda _: (
        200,
        [event(choices=[{"index": 0, "delta": {"content": "x"}, "finish_reason": "length"}]),
         event(choices=[], usage={"prompt_tokens": 1000, "completion_tokens": 1}), DONE],
    )  # fmt: skip
    endpoint = Endpoint(url=server.url, model="m")
    voice = calibration.calibrated(endpoint, VOICE, run_tag="t", clock=PacedClock(), limit_s=5.0)
    assert voice.characters_a_token == len(server.bodies[0]["messages"][0]["content"]) / 1000 == 8.0
    assert calibration.room(endpoint) is None


def test_without_a_count_there_is_no_filler(server: Any) -> None:
    """A server that counts nothing cannot be sent prompts of a length."""
    server.script = lambda _: (200, [DONE])
    endpoint = Endpoint(url=server.url, model="m")
    with pytest.raises(Unclear, match="no usage block"):
        calibration.calibrated(endpoint, VOICE, run_tag="t", clock=PacedClock(), limit_s=5.0)


def test_nobody_at_the_address() -> None:
    """A dead address is told before anything is planned."""
    with pytest.raises(Unclear, match="no answer"):
        calibration.room(Endpoint(url="http://127.0.0.1:9", model="m"))
