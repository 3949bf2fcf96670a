"""Recorded sessions in the AgentX form: what came after what follows from the times, and a golden neutral trace."""

import json
from pathlib import Path
from typing import Any

import pytest

from sparkctl.errors import FileFault
from tuner.agents import source, trace
from tuner.agents.trace import Trace

DATA = Path(__file__).parent / "data"
RECORDED = (DATA / "weka-subagents.json").read_text(encoding="utf-8")


def read(text: str, take: int | None = None) -> Trace:
    """Read a file's text as the bench does."""
    found = source.read(text.splitlines(keepends=True), source="weka-subagents.json", take=take)
    assert found is not None
    return found


def test_a_session_with_subagents_becomes_the_golden_trace() -> None:
    """Subagents chain inside, nested ones too; one that runs on is joined by the request after its end; requests side by side stay so."""
    golden = (DATA / "weka-subagents.agent.jsonl").read_text(encoding="utf-8").splitlines()
    assert list(trace.write(read(RECORDED))) == golden


def test_one_session_a_line_is_the_same() -> None:
    """JSON lines and an indented document hold the same sessions; `take` reads the first only."""
    session = json.loads(RECORDED)
    lines = [json.dumps({**session, "id": name}) for name in ("one", "two")]
    found = read("\n".join([*lines, "broken"]), take=2)
    assert [one.id for one in found.sessions] == ["one", "two"]
    assert found.sessions[0].calls == read(RECORDED).sessions[0].calls


def test_blocks_of_a_global_scope_are_shared_over_the_file() -> None:
    """`hash_id_scope` global makes equal ids equal text in all sessions."""
    assert read(RECORDED.replace('"local"', '"global"')).header.hash_scope == "file"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": 1}, "weka-subagents.json:1: $.extra: unknown key"),
        ({"hash_id_scope": "wide"}, '$.hash_id_scope: wanted one of local, global, found "wide"'),
        ({"requests": []}, "$.requests: no request, wanted at least one"),
        ({"requests": [{"type": "x"}]}, '$.requests[0]: $.type: wanted one of n, s, subagent, found "x"'),
        (
            {
                "requests": [
                    {
                        "type": "subagent",
                        "t": 0,
                        "agent_id": "a",
                        "subagent_type": "",
                        "status": "",
                        "requests": [3],
                    }
                ]
            },
            "$.requests[0].requests[0]: wanted an object, found 3",
        ),
        (
            {"requests": [{"type": "n", "t": -1, "model": "m", "in": 1, "out": 1}]},
            "$.t: wanted a number of 0 or more",
        ),
        ({"requests": [{"type": "n", "t": 0, "model": "m", "out": 1}]}, "$.requests[0]: $.in: is missing"),
    ],
)
def test_a_fault_is_named_with_its_place(change: dict[str, Any], said: str) -> None:
    """A recorded file is read as strictly as ours, and the place leads into the subagent."""
    with pytest.raises(FileFault) as refused:
        read(json.dumps({**json.loads(RECORDED), **change}))
    assert said in refused.value.message


def test_sessions_that_differ_in_kind_are_refused() -> None:
    """One file has one block size, and no id twice."""
    session = json.loads(RECORDED)
    with pytest.raises(FileFault) as refused:
        read(json.dumps(session) + "\n" + json.dumps({**session, "block_size": 16}))
    assert "two sessions have the same id" in refused.value.message
    assert "sessions differ" in refused.value.message


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ('{"format":"agent-trace","v":1}', "trace"),
        ('{"id": "a", "requests": []}', "weka lines"),
        ("{", "weka"),
        ("[", "weka"),
        ("schema: 1", "workload"),
        ("# a comment", "workload"),
    ],
)
def test_a_file_is_known_by_its_first_line(first: str, kind: str) -> None:
    """The name of a file does not matter."""
    assert source.kind(first) == kind
