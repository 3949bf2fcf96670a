"""What SSH, sudo and Ansible say is told as a cause with a remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from sparkctl.unreachable import TROUBLES, explain, say

CASES = json.loads((Path(__file__).parent / "troubles.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['trouble']}: {case['origin'][:30]}")
def test_a_text_is_recognised(case: dict[str, Any]) -> None:
    """Each captured or known text leads to its trouble, with a remedy that fits what was refused."""
    answered = case.get("answered", False)
    found = explain(case["text"], answered=answered)
    assert found is not None
    assert found.name == case["trouble"]
    said, hint = say(case["text"], answered=answered)
    assert said == case.get("said", found.said)
    assert case.get("hint", found.hint) in hint


@pytest.mark.parametrize(
    "text",
    [
        "docker run sparkctl-a-rank0 timed out after 120 s",
        "open /models/x: permission denied",
        "dial tcp 127.0.0.1:2375: connect: connection refused",
        "lookup registry.example on 127.0.0.53:53: Temporary failure in name resolution",
        "ssh: connect to host 10.0.0.14 port 22: Connection timed out",
        "/bin/sh: 1: python3: not found",
    ],
)
def test_a_node_that_answered_has_no_trouble_with_the_way_there(text: str) -> None:
    """What its own tools say is quoted, however much it sounds like SSH."""
    assert explain(text, answered=True) is None
    assert say(f"first\n{text}", answered=True)[0] == text


def test_a_file_that_may_not_be_opened_is_no_refused_login() -> None:
    """Only the words of a login that failed send somebody to authorized_keys."""
    assert explain("PermissionError: [Errno 13] Permission denied: '/etc/ssh/ssh_config'") is None


def test_every_trouble_has_a_case() -> None:
    """A trouble that no text leads to is untested."""
    assert {trouble.name for trouble in TROUBLES} == {case["trouble"] for case in CASES}


def test_an_unknown_text_is_shown_as_it_is() -> None:
    """What we do not know is quoted by its last line, and an empty text says so."""
    assert say("first\nsomething new\n")[0] == "something new"
    assert say("  \n")[0] == "no answer and no reason given"
    assert say("  \n", answered=True)[0] == "it failed and gave no reason"
