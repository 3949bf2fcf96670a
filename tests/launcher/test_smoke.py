"""Smokes judge replies: each reply is a file, its folder says how it must end."""

import json
from pathlib import Path

import pytest

from launcher.smoke import SMOKES, TOOL, garble, judge

CASES = json.loads((Path(__file__).parent / "smokes" / "replies.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_reply_is_judged(case: dict[str, str]) -> None:
    """A sensible reply passes, a damaged one fails with the reason."""
    smoke = next(one for one in (*SMOKES, TOOL) if one.name == case["smoke"])
    fault = judge(smoke, case["reply"]).fault
    if case["fault"]:
        assert case["fault"] in fault
    else:
        assert fault == ""


def test_lists_and_headings_still_read_as_language() -> None:
    """Legitimate repetition is not garble."""
    assert (
        garble(
            "1. Mix flour and water.\n2. Mix in the yeast.\n3. Mix in the salt.\n4. Let it rest, then bake it."
        )
        == ""
    )
