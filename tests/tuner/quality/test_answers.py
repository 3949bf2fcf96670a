"""What is right about an answer: data files in, faults out."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.quality import answers
from tuner.quality.answers import Said

CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "answers.yml").read_text(encoding="utf-8")
)
SCHEMA = {
    "type": "object",
    "properties": {"time": {"type": "string"}, "label": {"type": "string"}},
    "required": ["time", "label"],
}
WANTED = {"time": "06:30", "label": "school run"}


def _fault(kind: str, case: dict[str, Any]) -> str:
    said = Said(text=case.get("text", ""), calls=tuple((one[0], one[1]) for one in case.get("calls", ())))
    match kind:
        case "counting":
            return answers.counted(said, case["first"], case["last"])
        case "needle":
            return answers.named(said, case["wanted"])
        case "json":
            return answers.recorded(said, case["keys"])
        case _:
            return answers.called(said, "set_alarm", WANTED, SCHEMA)


@pytest.mark.parametrize(
    ("kind", "case"), [(kind, case) for kind, cases in CASES.items() for case in cases], ids=str
)
def test_an_answer_is_judged(kind: str, case: dict[str, Any]) -> None:
    """The fault names what was found and what was wanted; a right answer has none."""
    found = _fault(kind, case)
    assert (found == "") if not case["fault"] else (case["fault"] in found)


def test_code_is_what_stands_in_the_fences() -> None:
    """All blocks in order; a block that was cut at max_tokens counts; without fences the whole text is code."""
    assert answers.code("Here:\n```python\na = 1\n```\nand\n```\nb = 2\n```\n") == "a = 1\n\nb = 2\n"
    assert answers.code("```py\na = 1\n") == "a = 1\n"
    assert answers.code("a = 1") == "a = 1"


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, {"choices": []}, {"choices": [None]}, {"choices": [{"message": "x"}]}, {"choices": "ab"}],
    ids=str,
)
def test_what_is_no_answer_is_a_fault(answer: object) -> None:
    """Whatever a server sends, nothing is raised."""
    assert answers.read(answer).fault


def test_an_answer_is_read_whole() -> None:
    """Text, thoughts, calls and counts, each where it stands; odd types count as absent."""
    found = answers.read(
        {
            "choices": [
                {
                    "message": {
                        "content": None,
                        "reasoning_content": "hm",
                        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}, {"function": None}],
                    },
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": {"prompt_tokens": 7, "completion_tokens": True},
        }
    )
    assert found == Said(
        reasoning="hm", calls=(("f", "{}"), ("", "")), finish_reason="tool_calls", prompt_tokens=7
    )
