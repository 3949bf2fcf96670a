"""From calls to figures, reckoned by hand, and what makes a level void."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import agents as rows
from ledger import bodies
from tuner.agents import report
from tuner.agents.exchange import Exchange, Level, SessionRun
from tuner.agents.session import Load, Session, Turn, Words
from tuner.counters import Counters

SAID = "The importer drops a row because its price holds a point and a comma, as line 72 shows."


def call(i: int, sent_s: float, **changes: Any) -> Exchange:
    """A call of 11 tokens in 1 s after a first token at 0.5 s: ITL 0.05 s."""
    made = Exchange(
        copy=0,
        session="a",
        i=i,
        agent="main",
        due_s=sent_s,
        sent_s=sent_s,
        ended_s=sent_s + 1.0,
        ttft_s=0.5,
        total_s=1.0,
        max_tokens=11,
        planned_tokens=100,
        prompt_tokens=100,
        completion_tokens=11,
        cached_tokens=0,
        finish_reason="length",
        text=SAID,
    )
    return replace(made, **changes)


def level(*calls: Exchange, words: Words = "own", **changes: Any) -> Level:
    """A level of one session that ended after 10 s."""
    message = {"role": "user", "content": "Why is a row missing?"}
    turns = tuple(
        Turn(i=i, after=(), wait_s=0.0, why="", agent="main", max_tokens=11, messages=(message,))
        for i in range(9)
    )
    load = Load(
        name="x", digest="d", words=words, sessions=(Session(id="a", turns=turns),), body={}, limit_s=1.0
    )
    made = Level(
        load=load,
        live=1,
        run_tag="t",
        started="2026-10-03T00:00:00Z",
        seconds=10.0,
        idle_cap_s=10.0,
        most_s=None,
        characters_a_token=None,
        client_cpu_share=0.1,
        exchanges=calls,
        sessions=(SessionRun(copy=0, session="a", began_s=0.0, ended_s=10.0, end="ended"),),
    )
    return replace(made, **changes)


def test_speed_a_user_is_one_over_itl_at_the_same_statistic() -> None:
    """ITL 0.05 and 0.1 s: mean 0.075 s is 13.3 tok/s, p90 0.095 s is 10.5 tok/s, the slow tail."""
    slow = call(1, 2.0, total_s=1.5, ended_s=3.5)
    found = report.figures(level(call(0, 0.0), slow))
    assert found.per_user is not None
    assert found.per_user.mean == pytest.approx(1 / 0.075)
    assert found.per_user.p50 == pytest.approx(1 / 0.075)
    assert found.per_user.p90 == pytest.approx(1 / 0.095)
    assert found.end_to_end is not None
    assert found.end_to_end.mean == pytest.approx(11 / 1.25)
    assert found.ttft_s == report.Spread(mean=0.5, p50=0.5, p90=0.5, n=2)


def test_sessions_and_their_time() -> None:
    """One session of 10 s, in flight for 1 s and for 1.5 s of two calls side by side: 6 a minute, 2.5 s busy."""
    found = report.figures(level(call(0, 0.0), call(1, 4.0), call(2, 4.5)))
    assert found.sessions_per_min == pytest.approx(6.0)
    assert found.session_s is not None
    assert found.busy_s is not None
    assert (found.session_s.mean, found.busy_s.mean) == (10.0, pytest.approx(2.5))
    assert found.output_tok_s == pytest.approx(3.3)


def test_cached_and_computed_prompt_tokens_are_told_apart() -> None:
    """80 of 200 prompt tokens came from the cache, all of them at the second place."""
    found = report.figures(level(call(0, 0.0), call(1, 2.0, cached_tokens=80)))
    assert (found.cached_tokens, found.uncached_tokens, found.cached_share) == (80, 120, 0.4)
    assert [one.cached_share for one in found.positions] == [0.0, 0.8]


def test_without_details_the_servers_counter_tells_what_was_cached() -> None:
    """Replies that do not say what was cached leave it to the counters; without those it is not known."""
    bare = level(call(0, 0.0, cached_tokens=None))
    assert report.figures(bare).cached_share is None
    seen = replace(bare, before=Counters(cached=100.0), after=Counters(cached=150.0))
    assert report.figures(seen).cached_tokens == 50


def test_a_call_of_one_token_has_no_itl() -> None:
    """A single token, or all at once, tells no rate between tokens, and still a time."""
    found = report.figures(level(call(0, 0.0, completion_tokens=1), call(1, 2.0, ttft_s=1.0)))
    assert found.per_user is None
    assert found.end_to_end is not None
    assert found.end_to_end.n == 2


def test_a_void_level_keeps_its_counts_alone() -> None:
    """How many calls were made and failed is told of a void level too; nothing of it looks like a measurement."""
    found = report.withheld(report.figures(level(call(0, 0.0), call(1, 2.0, fault="HTTP 500: x"))))
    assert (found.calls, found.failed, found.prompt_tokens) == (2, 1, 100)
    assert (found.per_user, found.sessions_per_min, found.cached_share, found.output_tok_s) == (None,) * 4


QUIET = Counters(prompt=0.0, made=0.0, running=0.0, waiting=0.0)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (level(call(0, 0.0)), ()),
        (level(call(0, 0.0), before=QUIET, after=replace(QUIET, prompt=100.0, made=11.0)), ()),
        (level(), ("no call was made",)),
        (level(call(0, 0.0), client_cpu_share=0.95), ("the client used 95% of a core",)),
        (level(call(0, 0.0, completion_tokens=None)), ("a copy 1 call 0: the server sent no usage block",)),
        (level(call(0, 0.0, text="so it is so it is " * 60)), ("a copy 1 call 0: its reply is damaged",)),
        (level(call(0, 0.0, text="x x x x"), words="filler"), ()),
        (level(call(0, 0.0, prompt_tokens=40), words="filler"), ("40 prompt tokens counted, wanted about 100",)),
        (level(call(0, 0.0, completion_tokens=9), words="filler"), ("a copy 1 call 0: 9 completion tokens",)),
        (
            level(call(0, 0.0), before=QUIET, after=replace(QUIET, prompt=900.0, made=11.0)),
            ("the server counted 900 prompt tokens and the replies 100",),
        ),
        (
            level(call(0, 0.0), before=replace(QUIET, running=2.0), after=replace(QUIET, prompt=100.0, made=11.0)),
            ("2 requests of another client ran",),
        ),
        (
            level(call(0, 0.0), call(1, 2.0, fault="HTTP 500: x"), before=QUIET, after=QUIET),
            ("1 of 2 calls failed, wanted none", "a copy 1 call 1: HTTP 500: x"),
        ),
    ],
)  # fmt: skip
def test_what_makes_a_level_void(made: Level, said: tuple[str, ...]) -> None:
    """Each reason is told with its call; a sound level has none."""
    found = report.voids(made)
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))


def test_a_level_becomes_a_bench_row() -> None:
    """The ledger takes the row, with figures by name, and no word of an answer in it."""
    body = rows.bench(level(call(0, 0.0)), boot="boot-1", simulated=True)
    bodies.check("bench", body)
    names = {one.name: one for one in bodies.bench(body).metrics}
    wanted = {"agents_s1_per_user_tok_s", "agents_s1_sessions_per_min", "agents_s1_session_s"}
    assert wanted <= set(names)
    assert names["agents_s1_per_user_tok_s"].value == pytest.approx(20.0)
    assert SAID not in repr(body)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_lies_within_its_values(values: list[float], share: float) -> None:
    """It is never outside, and the ends are the ends."""
    assert min(values) <= report.percentile(values, share) <= max(values)
    assert report.percentile(values, 0.0) == min(values)
    assert report.percentile(values, 1.0) == max(values)
