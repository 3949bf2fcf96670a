"""What is sent: heads, whole rounds, histories that grow exactly, and filler whose equal blocks are equal text."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl import content, edge
from tuner.agents import filler, session, source, trace
from tuner.agents.authored import AgentWorkload
from tuner.agents.filler import Voice
from tuner.agents.session import Load, Session, Turn
from tuner.agents.trace import Call, Trace

DATA = Path(__file__).parent / "data"
VOICE = Voice(words=tuple(f"w{n}" for n in range(150)), characters_a_token=4.0)


def load(name: str) -> Load:
    """Plan a data file."""
    return session.of_trace(_trace(name), name)


def _trace(name: str) -> Trace:
    found = source.read((DATA / name).read_text(encoding="utf-8").splitlines(), source=name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def coding() -> AgentWorkload:
    """The workload that ships."""
    return edge.read(content.agents("coding"), AgentWorkload)


def test_every_level_has_the_same_mix(coding: AgentWorkload) -> None:
    """Whole rounds over the sessions, at least as many as are live; no head comes twice, in no level."""
    planned = session.of_workload(coding)
    number = len(planned.sessions)
    heads: list[str] = []
    for live in (1, 2, 4, 8, 16, 32):
        found = session.copies(planned, live, "run")
        assert len(found) >= live
        for one in planned.sessions:
            assert sum(copy.session is one for copy in found) == len(found) // number
        heads += [copy.head for copy in found]
    assert len(set(heads)) == len(heads)


def test_an_own_prompt_is_the_one_before_with_the_models_answer(coding: AgentWorkload) -> None:
    """Each prompt begins with the whole prompt before and the answer to it, message by message."""
    planned = session.of_workload(coding)
    copy = session.copies(planned, 1, "run")[0]
    answers = {i: f"answer {i}" for i in range(20)}
    before = session.prompt(copy, 0, planned, answers, None)
    assert before[0] == {"role": "system", "content": coding.system}
    assert str(before[1]["content"]).startswith(f"{copy.head} ")
    for i in range(1, len(copy.session.turns)):
        now = session.prompt(copy, i, planned, answers, None)
        assert now[:-1] == (*before, {"role": "assistant", "content": f"answer {i - 1}"})
        before = now


def test_without_a_shared_system_prompt_the_head_stands_first(coding: AgentWorkload) -> None:
    """Then no two sessions have a token in common."""
    from dataclasses import replace

    planned = session.of_workload(replace(coding, shares_system=False))
    copy = session.copies(planned, 1, "run")[0]
    assert str(session.prompt(copy, 0, planned, {}, None)[0]["content"]).startswith(copy.head)


def test_recorded_messages_grow_by_what_is_recorded() -> None:
    """A call's messages follow those of the last call in `after`; the model's own answers are not among them."""
    planned = load("messages.agent.jsonl")
    copy = session.copies(planned, 1, "run")[0]
    third = session.prompt(copy, 3, planned, {}, None)
    assert [one["role"] for one in third] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert third[:4] == session.prompt(copy, 1, planned, {}, None)
    alone = session.prompt(copy, 2, planned, {}, None)
    assert alone[0]["content"] == [
        {"type": "text", "text": copy.head},
        {"type": "text", "text": "Read b.py."},
    ]
    assert planned.words == "recorded"


def test_equal_blocks_are_equal_text_and_lengths_come_near() -> None:
    """Two prompts of a session agree for as long as their block ids do, and differ right after."""
    planned = load("weka-subagents.agent.jsonl")
    copy = session.copies(planned, 1, "run")[0]
    texts = [str(session.prompt(copy, i, planned, {}, VOICE)[0]["content"]) for i in range(10)]
    head = len(copy.head) + 1
    for turn, text in zip(copy.session.turns, texts, strict=True):
        assert turn.prompt_tokens
        assert len(text) - head == turn.prompt_tokens * 4
    assert texts[1].startswith(texts[0])
    assert texts[6].startswith(texts[1])
    assert texts[5][: head + 128 * 4] == texts[2]
    assert texts[2][head:][:40] != texts[0][head:][:40]
    assert planned.body == {"ignore_eos": True}


def test_kept_tokens_are_those_of_the_agents_last_prompt() -> None:
    """`keep` cuts the earlier prompt; what it counts beyond that prompt (the answer) is new."""
    recorded = _trace("example.agent.jsonl").sessions[0]
    texts = [filler.text(filler.segments(recorded, i, 64, "session"), VOICE) for i in range(4)]
    assert [len(one) // 4 for one in texts] == [8192, 8704, 5120, 9800]
    assert texts[1].startswith(texts[0])
    assert texts[3].startswith(texts[1])
    assert texts[2][:100] != texts[1][:100]


def test_blocks_of_a_file_share_a_head_within_a_round() -> None:
    """Where blocks are shared over sessions the head must not part them, and two rounds must not share."""
    from dataclasses import replace

    found = _trace("weka-subagents.agent.jsonl")
    other = replace(found.sessions[0], id="b")
    both = replace(
        found, header=replace(found.header, hash_scope="file"), sessions=(found.sessions[0], other)
    )
    planned = session.of_trace(both, "both")
    heads = [copy.head for copy in session.copies(planned, 4, "run")]
    assert heads[0] == heads[1] != heads[2] == heads[3]
    first, second = session.copies(planned, 4, "run")[:2]
    assert session.prompt(first, 1, planned, {}, VOICE) == session.prompt(second, 1, planned, {}, VOICE)


def test_sessions_that_do_not_fit_are_left_out() -> None:
    """A server tells how many tokens it takes; what is longer is not sent, and it is told how many."""
    planned = load("example.agent.jsonl")
    assert session.fitting(planned, None) == planned
    assert session.fitting(planned, 20_000).left_out == 0
    none = session.fitting(planned, 9_000)
    assert (none.sessions, none.left_out) == ((), 1)


@given(st.data())
def test_a_prompt_has_its_tokens_and_keeps_what_it_keeps(data: st.DataObject) -> None:
    """Whatever is kept or named by blocks: a prompt is as long as recorded, and begins as the one that it keeps a part of."""
    calls: list[Call] = []
    for i in range(data.draw(st.integers(1, 6))):
        size = data.draw(st.integers(1, 400))
        keep = data.draw(st.none() | st.integers(0, size)) if i else None
        blocks = () if keep else tuple(data.draw(st.lists(st.integers(0, 3), max_size=5)))
        after = (i - 1,) if i else ()
        calls.append(Call(i=i, after=after, prompt_tokens=size, completion_tokens=1, keep=keep, h=blocks))
    recorded = trace.Session(id="a", calls=tuple(calls))
    texts = [filler.text(filler.segments(recorded, i, 64, "session"), VOICE) for i in range(len(calls))]
    for call, text in zip(calls, texts, strict=True):
        assert len(text) == call.prompt_tokens * 4
        if call.keep:
            shared = min(call.keep, calls[call.i - 1].prompt_tokens) * 4
            assert text[:shared] == texts[call.i - 1][:shared]


@given(st.data())
def test_no_more_calls_are_in_flight_than_there_are_chains(data: st.DataObject) -> None:
    """`width` bounds every set of calls of which none comes after another."""
    number = data.draw(st.integers(1, 8))
    turns: list[Turn] = []
    above: list[set[int]] = []
    for i in range(number):
        after = tuple(data.draw(st.lists(st.integers(0, i - 1), unique=True))) if i else ()
        above.append({*after, *(far for one in after for far in above[one])})
        turns.append(Turn(i=i, after=after, wait_s=0, why="", agent="main", max_tokens=1))
    bound = session.width(Session(id="x", turns=tuple(turns)))
    widest = max(
        size
        for size in range(1, number + 1)
        for some in combinations(range(number), size)
        if all(low not in above[high] for low, high in combinations(some, 2))
    )
    assert bound >= widest


def test_what_ships_is_varied_and_real(coding: AgentWorkload) -> None:
    """No text of a tool or of the user stands twice, and tools and people both take their time."""
    turns = [turn for one in coding.sessions for turn in one.turns]
    assert len({turn.text for turn in turns}) == len(turns)
    assert all(any(turn.who == "tool" and turn.wait_s for turn in one.turns) for one in coding.sessions)
    assert all(any(turn.who == "user" and turn.wait_s for turn in one.turns) for one in coding.sessions)
