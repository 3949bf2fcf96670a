"""What SSH, sudo and Ansible say is told as a cause with a remedy."""

import json
from pathlib import Path

import pytest

from sparkctl.unreachable import TROUBLES, explain, say

CASES = json.loads((Path(__file__).parent / "troubles.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['trouble']}: {case['origin'][:30]}")
def test_a_text_is_recognised(case: dict[str, str]) -> None:
    """Each captured or known text leads to its trouble, with a remedy."""
    found = explain(case["text"])
    assert found is not None
    assert found.name == case["trouble"]
    assert say(case["text"]) == (case.get("said", found.said), found.hint)


def test_every_trouble_has_a_case() -> None:
    """A trouble that no text leads to is untested."""
    assert {trouble.name for trouble in TROUBLES} == {case["trouble"] for case in CASES}


def test_an_unknown_text_is_shown_as_it_is() -> None:
    """What we do not know is quoted by its last line, and an empty text says so."""
    assert say("first\nsomething new\n")[0] == "something new"
    assert say("  \n")[0] == "no answer and no reason given"
