"""Bench results of several makers, as files: which replies they hold, and what is refused.

The files were made after public reports: vllm_bench_zero_output after vllm-project/vllm-omni#7058 and tenstorrent/vllm#354,
chat_reasoning_only after hasso5703/dgx-spark-qwen38#2, stream_whole after the bench notes of
tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, completion_after_end after vllm-project/vllm#18687, completion_garbled after
tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#2, aiperf_profile after docs/reference/json-export-schema.md of ai-dynamo/aiperf;
none is a capture.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.audit import audit
from tuner.request import Bench, Request
from tuner.results import Result, doubts, of_document, of_stream, v41bench
from tuner.results.figures import means
from tuner.results.named import named
from tuner.workload import Workload

RESULTS = Path(__file__).parent / "data" / "results"


def result(name: str) -> Result:
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
    found = result(name).answered
    assert len(found) == number
    assert [damage.kind for one in found for damage in audit(one.reply)] == kinds


def test_requests_that_failed_or_asked_for_one_token_are_left_out() -> None:
    """Their emptiness has another reason, which the bench tells."""
    raw = {"generated_texts": ["", "", "Yes."], "output_lens": [0, 1, 3], "errors": ["timed out", "", ""]}
    assert [one.request for one in of_document(raw).answered] == ["request 3"]


def test_tool_calls_are_an_answer() -> None:
    """A message without content that calls a tool is not silent."""
    call = {"function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    (one,) = of_document({"choices": [{"message": {"content": None, "tool_calls": [call]}}]}).answered
    assert audit(one.reply) == ()


def test_content_in_parts_is_joined() -> None:
    """Some servers send content as a list."""
    parts = [{"type": "text", "text": "It is "}, {"type": "text", "text": "four."}]
    (one,) = of_document({"choices": [{"message": {"content": parts}}]}).answered
    assert one.reply.text == "It is four."


def test_a_list_of_completions_numbers_them() -> None:
    """Each reply keeps the number of its document."""
    documents = [{"choices": [{"text": "Yes."}]}, {"choices": [{"text": "No."}, {"text": "Perhaps."}]}]
    assert [one.request for one in of_document(documents).answered] == [
        "1 choice 1",
        "2 choice 1",
        "2 choice 2",
    ]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"benchmarks": []}, "found the keys benchmarks"),
        ([], "found list"),
        (7, "found int"),
        ({"completed": 4, "output_throughput": "61"}, "output_throughput: wanted a number, found '61'"),
        ({"completed": True, "output_throughput": 61.0}, "completed: wanted a number, found True"),
        ({"batches": [{"category": "json"}]}, "c: missing, wanted a count"),
        ({"batches": [7]}, "c: missing"),
        ({"batches": [], "prefill": [{"prompt_tokens": 2950}]}, "prefill_tok_s: missing"),
        ({"benchmarks": [{"pp_throughput": {"mean": "fast"}}]}, "missing"),
        ({"benchmarks": [{"metrics": {"request_totals": {}}}]}, "successful: missing"),
        ({"choices": [{}]}, "neither message nor text"),
        ({"generated_texts": [None]}, "generated_texts: request 1 has none"),
        ({"generated_texts": ["a"], "errors": ["", ""]}, "errors is not a list of 1"),
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


# Figures.


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("vllm_bench_zero_output.json", ["no_output"]),
        ("vllm_bench_chunks.json", ["aggregate"]),
        ("v41bench_warm_cache.json", ["cached_prefill", "cached_prefill"]),
        ("v41bench_by_category.json", []),
        ("v41bench_chunks.json", ["rate"]),
        ("llama_benchy.json", []),
        ("llama_benchy_cached.json", ["cached_prefill"]),
        ("guidellm_totals.json", ["failed", "unfinished"]),
        ("aiperf_profile.json", ["failed"]),
    ],
)
def test_numbers_that_cannot_be_are_doubted(name: str, kinds: list[str]) -> None:
    """Each doubt says what was measured and what was wanted; a sound result has none."""
    found = doubts(result(name).figures)
    assert [one.kind for one in found] == kinds
    assert all(one.measured and one.wanted and one.where for one in found)


def test_published_means_leave_counting_out() -> None:
    """Eight categories of one engine, 30 to 90 tok/s: their mean is 57.2, with counting it would read 60.9."""
    (mean,) = means(result("v41bench_by_category.json").figures)
    assert mean.per_stream == pytest.approx((90.0 + 75.6 + 69.1 + 63.0 + 59.7 + 36.8 + 33.1 + 30.6) / 8)


def test_ours_is_written_and_read_in_the_shape_of_v41bench(quick: Workload) -> None:
    """What we write, we read back: same loads, same prefills, rates by tokens over seconds."""
    requests = tuple(
        Request(
            cell=cell.name, round=turn, stream=stream, prompt=cell.prompts[0] if cell.prompts else "filler", tag="[t]",
            sent_s=10.0 * turn, ttft_s=0.5, total_s=2.5 if cell.prompts else 30.0, prompt_tokens=60 if cell.prompts else 46_810,
            completion_tokens=101 if cell.prompts else 1, cached_tokens=0, finish_reason="length", text="Seven words of plain text stand here.",
        )
        for cell in quick.cells for turn in range(cell.rounds) for stream in range(cell.concurrency)
    )  # fmt: skip
    bench = Bench(
        workload=quick, workload_digest="abc", run_tag="t", started="2026-01-01T00:00:00Z", seconds=60.0,
        client_cpu_share=0.1, requests=requests,
    )  # fmt: skip
    told = json.loads(json.dumps(v41bench.document(bench, label="x", model="m")))
    figures = of_document(told).figures
    assert [(one.streams, one.per_stream) for one in figures.loads] == [(1, 50.0)] * 5 + [(6, 50.0)] * 2
    assert figures.loads[-1].aggregate == pytest.approx(606 / 2.5)
    assert [(one.tokens, one.tok_s) for one in figures.prefills] == [(46_810, 1560.3)]
    assert doubts(figures) == ()


def test_a_summary_of_aiperf_is_read_under_our_names() -> None:
    """Its means by our metrics' names, milliseconds as seconds, at the concurrency that its configuration asked for."""
    told = {one.name: (one.value, one.unit) for one in named(result("aiperf_profile.json").figures)}
    assert told == {
        "c6_agg_tok_s": (187.4, "tok/s"),
        "c6_per_stream_tok_s": (33.1, "tok/s"),
        "c6_ttft_s": (pytest.approx(0.4126), "s"),
    }


def test_a_unit_that_is_none_is_refused() -> None:
    """A time in another unit is no number of seconds, and is not taken for one."""
    raw = json.loads((RESULTS / "aiperf_profile.json").read_text(encoding="utf-8"))
    raw["time_to_first_token"]["unit"] = "fortnights"
    with pytest.raises(ValueError, match="time_to_first_token: unit: wanted one of ns, us, ms"):
        of_document(raw)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_figures_have_names_of_ours(path: Path) -> None:
    """Whatever a tool's result has in numbers has a name that our metrics have, each once and above 0."""
    told = named(of_document(json.loads(path.read_text(encoding="utf-8"))).figures)
    assert len({one.name for one in told}) == len(told)
    assert all(one.value > 0 and one.unit in {"tok/s", "s"} for one in told)
