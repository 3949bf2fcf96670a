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


def test_a_journal_is_read_from_the_container_on() -> None:
    """Yesterday's kill explains nothing today: the node's own time of the rank's making is where its journal begins."""
    argv = ending.journal_argv("2026-11-29T12:00:07.123456789Z\n")
    assert argv is not None
    assert argv[argv.index("--since") + 1] == "2026-11-29 12:00:07 UTC"
    assert ending.journal_argv("2026-11-29T12:00:07Z") is not None
    for text in ("", "<no value>", "2026-11-29T12:00:07+02:00", "Error: No such object"):
        assert ending.journal_argv(text) is None


def test_a_journal_that_was_not_read_clears_nobody() -> None:
    """Whoever may only see his own messages is told so, and not that nobody killed the rank."""
    cause = ending.find(ends((1, 137)), NAMES, {}, {})
    assert "the node's journal could not be read" in cause.said
    assert "systemd-journal" in cause.hint
    read = ending.find(ends((1, 137)), NAMES, {}, {"spark-a1": ()})
    assert "the journal since its start names nobody" in read.said


@pytest.mark.parametrize(
    ("said", "is_whole"),
    [
        ("", True),
        (
            "Hint: You are currently not seeing messages from other users and the system.\n      Users in groups 'adm' can.\n",
            False,
        ),
        ("No journal files were opened due to insufficient permissions.\n", False),
    ],
)
def test_a_journal_that_hides_something_is_not_whole(said: str, is_whole: bool) -> None:  # noqa: FBT001
    """Journalctl says so on its other output."""
    assert ending.is_whole(said) == is_whole


def test_a_slow_network_is_a_fault_of_a_line_that_serves_and_a_login_is_not() -> None:
    """Sockets spoil a line that answers; an ssh without an answer in somebody's log does not."""
    socket = "node-a:301:344 [0] NCCL INFO Using network Socket"
    ssh = "ssh: connect to host 10.10.20.2 port 22: Connection timed out"
    assert [one.name for one in ending.remarks({"a": (socket,), "b": (ssh,)})] == ["nccl-on-sockets"]


@given(st.lists(st.text(max_size=60), max_size=12), st.sampled_from([None, 0, 1, 137, 143]))
def test_any_log_has_an_end(lines: Sequence[str], code: int | None) -> None:
    """Whatever the logs hold, one rank is named and nothing breaks."""
    cause = ending.find(ends((2, code)), NAMES, {"spark-a2": lines, "spark-a0": lines}, {"spark-a2": lines})
    assert cause.node in NAMES
    assert cause.said
    assert cause.hint
