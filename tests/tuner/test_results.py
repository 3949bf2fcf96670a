"""Bench results of several makers, as files: which replies they hold, and what is refused.

The files were made after public reports: vllm_bench_zero_output after vllm-project/vllm-omni#7058 and tenstorrent/vllm#354,
chat_reasoning_only after hasso5703/dgx-spark-qwen38#2, stream_whole after the bench notes of
tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, completion_after_end after vllm-project/vllm#18687, completion_garbled after
tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#2; none is a capture.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.audit import audit
from tuner.results import Answered, of_document, of_stream

RESULTS = Path(__file__).parent / "data" / "results"


def answered(name: str) -> tuple[Answered, ...]:
    """Read one file of the folder."""
    text = (RESULTS / name).read_text(encoding="utf-8")
    return of_stream(text) if name.endswith(".txt") else of_document(json.loads(text))


@pytest.mark.parametrize(
    ("name", "number", "kinds"),
    [
        ("vllm_bench_zero_output.json", 4, ["empty", "empty", "empty"]),
        ("chat_reasoning_only.json", 1, ["reasoning_only"]),
        ("completion_after_end.json", 1, ["after_end"]),
        ("completion_garbled.json", 1, ["loop"]),
        ("stream_whole.txt", 1, []),
    ],
)
def test_what_others_wrote_is_judged(name: str, number: int, kinds: list[str]) -> None:
    """An engine that died mid-run "completes" requests of no tokens; all tokens may go into thinking, or behind the end."""
    found = answered(name)
    assert len(found) == number
    assert [damage.kind for one in found for damage in audit(one.reply)] == kinds


def test_requests_that_failed_or_asked_for_one_token_are_left_out() -> None:
    """Their emptiness has another reason, which the bench tells."""
    raw = {"generated_texts": ["", "", "Yes."], "output_lens": [0, 1, 3], "errors": ["timed out", "", ""]}
    assert [one.request for one in of_document(raw)] == ["request 3"]


def test_tool_calls_are_an_answer() -> None:
    """A message without content that calls a tool is not silent."""
    call = {"function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    (one,) = of_document({"choices": [{"message": {"content": None, "tool_calls": [call]}}]})
    assert audit(one.reply) == ()


def test_content_in_parts_is_joined() -> None:
    """Some servers send content as a list."""
    parts = [{"type": "text", "text": "It is "}, {"type": "text", "text": "four."}]
    (one,) = of_document({"choices": [{"message": {"content": parts}}]})
    assert one.reply.text == "It is four."


def test_a_list_of_completions_numbers_them() -> None:
    """Each reply keeps the number of its document."""
    documents = [{"choices": [{"text": "Yes."}]}, {"choices": [{"text": "No."}, {"text": "Perhaps."}]}]
    assert [one.request for one in of_document(documents)] == ["1 choice 1", "2 choice 1", "2 choice 2"]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"benchmarks": []}, "found the keys benchmarks"),
        ([], "found list"),
        (7, "found int"),
        ({"completed": 4, "output_throughput": 61.0}, "--save-detailed"),
        ({"choices": [{}]}, "neither message nor text"),
        ({"generated_texts": [None]}, "generated_texts[0] is NoneType"),
        ({"generated_texts": ["a"], "errors": []}, "errors is not a list of 1"),
        ({"requests": [{}], "workload": {"prompts": []}}, "a request has no text"),
    ],
)
def test_another_shape_is_refused_with_what_was_found(raw: Any, said: str) -> None:
    """The message names the place, and what is wanted there."""
    with pytest.raises(ValueError) as refused:
        of_document(raw)
    assert said in str(refused.value)


def test_a_stream_that_broke_off_is_refused() -> None:
    """Half a reply says nothing of the rest."""
    with pytest.raises(ValueError, match="ended before"):
        of_stream('data: {"choices":[{"delta":{"content":"1, 2"}}]}\n')
