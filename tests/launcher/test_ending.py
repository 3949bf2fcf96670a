"""Ending: which rank is told of, and what its log gives as the cause."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher import ending
from launcher.ending import End

NAMES = {f"spark-a{rank}": f"sparkctl-a-rank{rank}" for rank in range(4)}
CASES = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "endings").glob("*.json"))
}


def ends(*codes: tuple[int, int | None]) -> tuple[End, ...]:
    """Return ends of ranks with their codes, in order."""
    return tuple(End(node=f"spark-a{rank}", name=f"sparkctl-a-rank{rank}", code=code) for rank, code in codes)


@pytest.mark.parametrize("name", CASES)
def test_the_rank_with_the_cause_is_told_of(name: str) -> None:
    """The first that ended, unless it only tells of a consequence; said and hint hold what helps."""
    case: dict[str, Any] = CASES[name]
    ended = ends(*((rank, code) for rank, code in case["ends"]))
    logs = {f"spark-a{rank}": lines for rank, lines in case["logs"].items()}
    journals = {f"spark-a{rank}": lines for rank, lines in case.get("journals", {}).items()}
    cause = ending.find(ended, NAMES, logs, journals)
    assert cause.node == case["node"]
    assert [text for text in case["says"] if text not in cause.said] == []
    assert [text for text in case["hints"] if text not in cause.hint] == []
    assert cause.log == tuple(logs.get(cause.node, ()))[-40:]


def test_a_rank_that_is_gone_is_told_as_such() -> None:
    """A container that somebody removed has neither code nor log."""
    gone = End(node="spark-a2", name="sparkctl-a-rank2", is_gone=True)
    cause = ending.find((gone,), NAMES, {}, {})
    assert (cause.node, cause.said) == ("spark-a2", "sparkctl-a-rank2 is gone: its log is empty")


@pytest.mark.parametrize(
    ("code", "said"), [(None, "exit code unknown"), (3, "exit code 3:"), (137, "code 137 (SIGKILL)")]
)
def test_the_code_is_told(code: int | None, said: str) -> None:
    """A code that means a signal is told with its name."""
    assert said in ending.find(ends((1, code)), NAMES, {}, {}).said


def test_secrets_stay_out() -> None:
    """Neither the sentence nor the log that is shown holds a key."""
    lines = [
        "ERROR: bad argument --api-key EXAMPLE-not-a-real-key",
        "args: {'api_key': 'EXAMPLE-not-a-real-key'}",
    ]
    cause = ending.find(ends((0, 2)), NAMES, {"spark-a0": lines}, {})
    assert "EXAMPLE" not in cause.said + "".join(cause.log)
    assert "ERROR: bad argument" in cause.said


@given(st.lists(st.text(max_size=60), max_size=12), st.sampled_from([None, 0, 1, 137, 143]))
def test_any_log_has_an_end(lines: Sequence[str], code: int | None) -> None:
    """Whatever the logs hold, one rank is named and nothing breaks."""
    cause = ending.find(ends((2, code)), NAMES, {"spark-a2": lines, "spark-a0": lines}, {"spark-a2": lines})
    assert cause.node in NAMES
    assert cause.said
    assert cause.hint
