"""The neutral trace: what the data files hold comes in whole, and what is broken is named by its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl.errors import FileFault
from tuner.agents import trace
from tuner.agents.trace import Call, Header, Session, Trace

DATA = Path(__file__).parent / "data"
WHOLE = sorted(DATA.glob("*.agent.jsonl"))
BROKEN = sorted((DATA / "broken").glob("*.agent.jsonl"))


def read(path: Path, take: int | None = None) -> Trace:
    """Read a data file under a name that does not depend on where it lies."""
    return trace.parse(path.read_text(encoding="utf-8").splitlines(), source="FILE", take=take)


def test_the_example_means_what_the_format_says() -> None:
    """A default `after` is the call before; a join names two; tools and waits are kept."""
    found = read(DATA / "example.agent.jsonl")
    (session,) = found.sessions
    assert [call.after for call in session.calls] == [(), (0,), (1,), (1, 2)]
    assert [call.agent for call in session.calls] == ["main", "main", "explore", "main"]
    assert session.calls[1].tool == (("bash", 5.6),)
    assert (session.calls[1].wait, session.calls[1].why, session.calls[3].keep) == (5.6, "tool", 9244)
    assert not found.has_text
    assert read(DATA / "messages.agent.jsonl").has_text


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_what_is_written_is_read_again(path: Path) -> None:
    """A trace that was written out and read is the same trace, with the same digest."""
    found = read(path)
    again = trace.parse(trace.write(found), source="FILE")
    assert again == found
    assert trace.digest(again) == trace.digest(found)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.name)
def test_every_fault_is_named_by_its_line(path: Path) -> None:
    """All faults of a broken file come at once, each with line and key."""
    with pytest.raises(FileFault) as refused:
        read(path)
    wanted = path.with_name(path.name.replace(".agent.jsonl", ".faults.txt")).read_text(encoding="utf-8")
    assert refused.value.message == wanted.rstrip("\n")


def test_a_file_of_another_kind_does_not_fill_the_screen() -> None:
    """Of a thousand faults a screen full is told, and how many more there are."""
    head = next(iter(trace.write(read(DATA / "example.agent.jsonl"))))
    with pytest.raises(FileFault) as refused:
        trace.parse([head, *["x"] * 1000], source="FILE")
    told = refused.value.message.splitlines()
    assert len(told) == trace.MOST_FAULTS + 1
    assert told[-1] == f"and {1000 - trace.MOST_FAULTS} more faults"


def test_the_first_sessions_are_read_and_no_further() -> None:
    """With `take` a broken line of a later session does not matter, because nobody reads it."""
    lines = [*trace.write(_many(3)), "broken"]
    assert [one.id for one in trace.parse(lines, source="FILE", take=2).sessions] == ["s0", "s1"]


def _many(number: int) -> Trace:
    call = Call(i=0, after=(), prompt_tokens=10, completion_tokens=1)
    head = Header(block=64, hash_scope="session", source="made up", license="CC0-1.0")
    return Trace(header=head, sessions=tuple(Session(id=f"s{n}", calls=(call,)) for n in range(number)))


@given(st.data())
def test_any_trace_survives_the_file(data: st.DataObject) -> None:
    """Whatever values a call may have, writing and reading gives them back."""
    calls = []
    for i in range(data.draw(st.integers(1, 5))):
        size = data.draw(st.integers(1, 10**6))
        calls.append(
            Call(
                i=i,
                after=tuple(data.draw(st.lists(st.integers(0, i - 1), unique=True))) if i else (),
                prompt_tokens=size,
                completion_tokens=data.draw(st.integers(0, 10**5)),
                agent=data.draw(st.sampled_from(["main", "é/x#1"])),
                wait=data.draw(st.none() | st.floats(0, 1e6)),
                why=data.draw(st.sampled_from(["", "user", "tool"])),
                keep=data.draw(st.none() | st.integers(0, size)),
                h=tuple(data.draw(st.lists(st.integers(0, 2**40), max_size=4))),
                t=data.draw(st.none() | st.floats(0, 1e6)),
            )
        )
    found = Trace(header=_many(1).header, sessions=(Session(id="ü 1", calls=tuple(calls)),))
    assert trace.parse(trace.write(found), source="FILE") == found
