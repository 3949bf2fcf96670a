"""Verdicts on single replies, each case a file, and what holds for every text."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl import edge
from tuner.audit import Reply, audit

CASES = sorted((Path(__file__).parent / "audits").glob("*.json"))

PIECES = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ("the ", "<|im_end|>", "<think>", "</s>", "`", "\ufffd", "\u4e0d", "Ã¤", "!", "\n", "0, ", '"', "é”…")
    ),
)
TEXTS = st.lists(st.tuples(PIECES, st.integers(1, 60)), max_size=8).map(
    lambda parts: "".join(piece * times for piece, times in parts)
)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_reply_has_the_damage_that_its_case_tells(case: Path) -> None:
    """The reason stands in the case's `about`; no other damage is found."""
    raw = json.loads(case.read_text(encoding="utf-8"))
    reply = edge.structure({"text": "", **raw["reply"]}, Reply, source=case.name)
    assert [damage.kind for damage in audit(reply)] == raw["kinds"], raw["about"]


@given(text=TEXTS, reasoning=TEXTS, tokens=st.none() | st.integers(0, 999), prompt=TEXTS)
def test_every_text_is_judged_and_every_damage_explains_itself(
    text: str, reasoning: str, tokens: int | None, prompt: str
) -> None:
    """Nothing raises; a damage says what was measured and wanted, and lies within its text."""
    reply = Reply(text=text, reasoning=reasoning, completion_tokens=tokens, prompt=prompt)
    for damage in audit(reply):
        whole = text if damage.where == "text" else reasoning
        assert damage.measured
        assert damage.wanted
        assert 0 <= damage.at <= len(whole)
        assert damage.kind in damage.said
    assert audit(reply) == audit(reply)


@given(text=TEXTS)
def test_space_around_a_reply_changes_nothing(text: str) -> None:
    """Servers differ in whether a reply begins with a space; the audit does not."""
    kinds = {damage.kind for damage in audit(Reply(text=text.strip()))}
    assert {damage.kind for damage in audit(Reply(text=f" {text.strip()} "))} == kinds


def test_a_long_array_is_whole() -> None:
    """300,000 characters of one shape are data, and no window of them is judged more than once."""
    text = json.dumps([{"id": number, "name": f"n{number * 7919}", "on": True} for number in range(6000)])
    assert audit(Reply(text=text)) == ()
