"""`sparkctl audit` on files: codes, the table, the document, and our own bench's result."""

import json
from pathlib import Path
from typing import Any

import pytest

from sparkctl import edge
from sparkctl.cli import run, workloads
from tuner.request import Bench, Request
from tuner.workload import digest

RESULTS = Path(__file__).parents[1] / "tuner" / "data" / "results"
WHOLE = "A bridge carries its own weight first, and only then whatever crosses it."


def bench(tmp_path: Path, *texts: str) -> Path:
    """Write what `sparkctl bench -o` writes, with these replies."""
    workload = workloads.read("quick")
    same: dict[str, Any] = {
        "cell": "c1",
        "round": 0,
        "prompt": workload.prompts[0].id,
        "tag": "[t]",
        "sent_s": 0.0,
        "ttft_s": 0.1,
        "total_s": 2.0,
        "prompt_tokens": 9,
        "completion_tokens": 160,
        "cached_tokens": None,
        "finish_reason": "length",
    }
    made = Bench(
        workload=workload,
        workload_digest=digest(workload),
        run_tag="t",
        started="2026-01-01T00:00:00Z",
        seconds=9.0,
        client_cpu_share=0.1,
        requests=tuple(Request(**same, stream=number, text=text) for number, text in enumerate(texts)),
    )
    path = tmp_path / "bench.json"
    path.write_text(edge.to_json(made), encoding="utf-8")
    return path


def test_a_whole_bench_is_a_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but the count is said."""
    path = bench(tmp_path, WHOLE, WHOLE)
    assert run(["audit", str(path)]) == 0
    assert capsys.readouterr().out.strip() == f"{path}: 0 of 2 replies damaged, 0 numbers doubtful"


def test_a_damaged_reply_is_a_no_with_its_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table names request, damage and text, as much of it as the terminal takes."""
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["audit", str(bench(tmp_path, WHOLE, "dekameters " * 108))]) == 1
    told = capsys.readouterr().out
    assert "c1 round 1 stream 2" in told
    assert "dekameters dekameters" in told
    assert "1 of 2 replies damaged" in told


def test_the_document_has_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One entry a file, and `ok` over all."""
    files = [str(bench(tmp_path, WHOLE)), str(RESULTS / "chat_reasoning_only.json")]
    assert run(["audit", *files, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert [(one["file"], one["requests"], len(one["damaged"])) for one in told["files"]] == [
        (files[0], 1, 0),
        (files[1], 1, 1),
    ]
    assert told["files"][1]["damaged"][0]["kind"] == "reasoning_only"


def test_a_secret_in_a_reply_is_withheld(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model says what it was told."""
    run(["audit", str(bench(tmp_path, "</think> HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345"))])
    told = capsys.readouterr().out
    assert "special_token" in told
    assert "hf_abcdefghij" not in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ('{"benchmarks": []}', "found the keys benchmarks, wanted sparkctl bench -o"),
        ('{"choices": []}', "no reply to judge"),
        ("data: {}", "the stream ended before [DONE]"),
    ],
)
def test_another_file_is_used_wrongly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    """Exit 2 with the file, what was found and how to write one."""
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    assert run(["audit", str(path)]) == 2
    told = capsys.readouterr().err
    assert f"{path}" in told
    assert said in told
    assert "hint:" in told


def test_a_missing_file_is_used_wrongly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named."""
    assert run(["audit", str(tmp_path / "none.json")]) == 2
    assert "there is no such file" in capsys.readouterr().err
