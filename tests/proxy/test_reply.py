"""The decisions about a reply, without a network: any cutting gives the same, and each thing that can be sent already."""

import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import asked as asking
from proxy import repair
from proxy.asked import Asked, Unwatched
from proxy.reply import Reply
from proxy.said import read
from proxy.thresholds import Limits
from proxy.watch import Watch

from ..tuner.corpus import fit, fit_more, held
from .conftest import DONE, END, ROLE, chunk, sse, texts

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
LOW = -20.0


def request(**more: Any) -> Asked:
    """Return a request as it is read."""
    found = asking.read("chat", json.dumps({**BODY, **more}).encode())
    assert isinstance(found, Asked)
    return found


def played(reply: Reply, cuts: list[bytes], second: bytes | None) -> tuple[bytes, list[tuple[str, str, int]]]:
    """Feed reads; on a repair go on with the second stream, or stay where there is none."""
    out, alarms = b"", []
    for data in cuts:
        step = reply.feed(data)
        while True:
            out += step.forward
            alarms += [(one.sign.reason, one.action, one.at_tokens) for one in step.told]
            if step.alarm is None:
                break
            alarms.append((step.alarm.sign.reason, step.alarm.action, step.alarm.at_tokens))
            if second is not None:
                reply.turn()
                return out + reply.feed(second).forward + reply.end(), alarms
            step = reply.stay()
    return out + reply.end(), alarms


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """Cut bytes at these places."""
    places = sorted({0, *(min(one, len(data)) for one in at), len(data)})
    return [data[start:end] for start, end in pairwise(places)]


@given(
    logprobs=st.lists(st.sampled_from([-0.1, -0.5, LOW]), max_size=40),
    at=st.lists(st.integers(0, 9000), max_size=30),
    hold=st.integers(0, 12),
    mended=st.booleans(),
)
def test_how_the_stream_is_cut_makes_no_difference(
    logprobs: list[float], at: list[int], hold: int, *, mended: bool
) -> None:
    """The same bytes are forwarded and the same alarms raised, a byte at a time or all at once."""
    frames = [
        sse(ROLE),
        b": ping\n\n",
        *(sse(chunk(f"é{n} ", one)) for n, one in enumerate(logprobs)),
        sse(END),
        DONE,
    ]
    stream, second = b"".join(frames), b"".join([sse(ROLE), sse(chunk("mended")), sse(END), DONE])

    def whole(cuts: list[bytes]) -> tuple[bytes, list[tuple[str, str, int]]]:
        return played(Reply(asked=request(), limits=Limits(), hold=hold), cuts, second if mended else None)

    assert whole(cut(stream, at)) == whole([stream])
    # What was forwarded is a beginning of the reply, with the repair's text behind it, and without a repair it is all of it.
    said = texts(whole([stream])[0])
    told = "".join(f"é{n} " for n in range(len(logprobs)))
    assert told.startswith(said.removesuffix("mended")) if mended else said == told


def test_a_tool_call_that_was_sent_is_not_taken_back() -> None:
    """Its arguments cannot be continued: the alarm is only told, and every byte goes on."""
    call = chunk("", -0.1, delta={"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]})
    bad = chunk("", LOW, delta={"tool_calls": [{"index": 0, "function": {"arguments": "?"}}]})
    out, alarms = played(
        Reply(asked=request(logprobs=True), limits=Limits()), [sse(call), *[sse(bad)] * 3], b""
    )
    assert out == sse(call) + sse(bad) * 3
    assert alarms == [("improbable", "tell", 4)]


def test_thoughts_are_followed_by_new_ones() -> None:
    """Nothing of the answer was seen: the whole is asked again, and usage counts what was sent."""
    thoughts = [sse(chunk("", LOW, delta={"reasoning": "hm "}))] * 3
    usage = {
        "id": "b",
        "choices": [],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }
    second = b"".join([sse(ROLE), sse(chunk("answer")), sse(usage)])
    out, alarms = played(Reply(asked=request(), limits=Limits()), [sse(ROLE), *thoughts], second)
    assert alarms == [("improbable", "anew", 3)]
    assert b'"completion_tokens":9,"total_tokens":14' in out
    assert b'"id":"b"' not in out
    assert out.count(b"hm ") == 2


def test_a_loop_is_rolled_back_to_before_it_began() -> None:
    """With room enough to hold, the client sees the text before the loop and nothing of it."""
    clean = [f"word{number} " for number in range(60)]
    frames = [sse(chunk(one)) for one in [*clean, *["round ", "and ", "round ", "we "] * 40]]
    out, alarms = played(Reply(asked=request(), limits=Limits(), hold=128), frames, sse(chunk("mended")))
    assert [one[:2] for one in alarms] == [("loop", "continue")]
    said = texts(out)
    assert "".join(clean[:58]) in said
    assert "round and round" not in said


def test_nothing_is_repaired_twice() -> None:
    """What is read in full cannot be read deeper."""
    bad = b"".join([sse(chunk("x", LOW))] * 3)
    reply = Reply(asked=request(), limits=Limits())
    assert reply.feed(bad).repair
    reply.turn()
    (again,) = reply.feed(bad).told
    assert (again.action, again.why) == ("tell", "it is read in full already")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"response_format": {"type": "json_object"}}, "a grammar would begin anew"),
        ({"structured_outputs": {"json": "{}"}}, "a grammar would begin anew"),
        ({"tool_choice": "required"}, "a tool must be called"),
        ({"max_tokens": 2}, "no token is left"),
        ({"vllm_xargs": {"sparkctl_full": True}}, "it was asked for full reads"),
    ],
)
def test_what_cannot_be_continued_is_told(more: dict[str, Any], why: str) -> None:
    """Once something of the answer was sent."""
    reply = Reply(asked=request(**more), limits=Limits())
    (alarm,) = reply.feed(b"".join([sse(chunk("x", LOW))] * 3)).told
    assert (alarm.action, alarm.why) == ("tell", why)


@pytest.mark.parametrize("more", [{"n": 2}, {"use_beam_search": True}, {"echo": True}])
def test_several_replies_in_one_are_not_watched(more: dict[str, Any]) -> None:
    """They go through as they came."""
    assert isinstance(asking.read("chat", json.dumps({**BODY, **more}).encode()), Unwatched)


def test_a_completion_is_continued_behind_its_prompt() -> None:
    """With the client's limits less what stands."""
    body = {"model": "m", "prompt": "Once ", "max_tokens": 10, "min_tokens": 3}
    found = asking.read("text", json.dumps(body).encode())
    assert isinstance(found, Asked)
    told = repair.continued(found, repair.Kept(text="upon a ", tokens=4))
    assert told == {
        **body,
        "prompt": "Once upon a ",
        "max_tokens": 6,
        "min_tokens": 0,
        "logprobs": 0,
        "vllm_xargs": {"sparkctl_full": True},
    }


def test_whole_texts_raise_no_alarm() -> None:
    """Of the audit's whole generators, five replies each, fed as events of some characters: fewer than 1 % trip the text watch."""
    tripped, total = [], 0
    for corpus in (fit, fit_more, held):
        for kind, make in corpus.HEALTHY.items():
            for number in range(5):
                text = make(Random(f"{kind} {number}")).text  # noqa: S311 - a made-up reply
                frames = [sse(chunk(text[at : at + 40], None)) for at in range(0, len(text), 40)]
                reply = Reply(asked=request(logprobs=True), limits=Limits(), mends=False)
                total += 1
                tripped += [kind for frame in frames if reply.feed(frame).told]
    assert total > 300
    assert len(tripped) < 0.01 * total, tripped


def test_a_watch_counts_tokens_where_nobody_tells_logprobs() -> None:
    """An event is then a token, the least that it can be."""
    watch = Watch(limits=Limits())
    for number in range(3):
        watch.feed(read(chunk(f"w{number} ", None)))
    assert watch.tokens == 3
