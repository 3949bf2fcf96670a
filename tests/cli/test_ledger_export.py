"""`ledger export`: the ledger's figures in other shapes, number for number."""

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ledger import record
from ledger.journal import Journal
from ledger.replies import keep
from ledger.texts import Texts
from sparkctl.cli import run, workloads
from tuner import metrics, results
from tuner.ladder import Trial
from tuner.request import Bench, Request
from tuner.results import v41bench
from tuner.results.named import named
from tuner.workload import canonical, digest

ROOT = Path(__file__).parents[2]
AT = "2026-11-30T00:00:00Z"
DEMO = ROOT / "docs" / "demo" / "ledger.jsonl"
KNOWN = next(row.body["boot"] for row in Journal(DEMO).read().rows if row.kind == "bench")
"""A boot of the demo; its texts are not kept beside the ledger that is committed."""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with the demo's ledger."""
    (tmp_path / "ledger.jsonl").write_bytes(DEMO.read_bytes())
    return tmp_path


def test_csv_and_parquet_have_every_figure(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each metric of each bench and each reported figure is a row with its label, unrounded, in both forms alike."""
    for name in ("figures.csv", "figures.parquet"):
        assert run(["ledger", "export", str(state / name), "--state", str(state)]) == 0
    capsys.readouterr()
    with (state / "figures.csv").open(encoding="utf-8", newline="") as file:
        told = list(csv.DictReader(file))
    rows = Journal(DEMO).read().rows
    benches: list[Any] = [row.body for row in rows if row.kind == "bench"]
    wanted = {(one["boot"], metric["name"]): metric["value"] for one in benches for metric in one["metrics"]}
    ours = {(one["boot"], one["metric"]): float(one["value"]) for one in told if one["label"] == "simulated"}
    assert ours == wanted
    assert sum(one["label"] == "reported" for one in told) == sum(
        value is not None
        for row in rows
        if row.kind == "import"
        for one in row.body["rows"]  # type: ignore[union-attr]
        for key, value in one.items()  # type: ignore[union-attr]
        if key.endswith("tok_s")
    )
    frame = pd.read_parquet(state / "figures.parquet")
    assert frame["value"].tolist() == [float(one["value"]) for one in told]
    assert frame["metric"].tolist() == [one["metric"] for one in told]


def _bench() -> Bench:
    """A made-up bench of the shipped workload `tiny`: every request half a second to the first token, then 50 tok/s."""
    workload = workloads.read("tiny")
    requests = tuple(
        Request(
            cell=cell.name,
            round=turn,
            stream=stream,
            prompt=(cell.prompts or ("",))[stream % max(1, len(cell.prompts))],
            tag="",
            sent_s=10.0 * turn,
            ttft_s=0.5,
            total_s=2.5,
            prompt_tokens=69,
            completion_tokens=101 if cell.kind == "decode" else 1,
            cached_tokens=0,
            finish_reason="length",
            text=f"words of {cell.name} {turn} {stream}",
        )
        for cell in workload.cells
        for turn in range(cell.rounds)
        for stream in range(cell.concurrency)
    )
    return Bench(
        workload=workload,
        workload_digest=digest(workload),
        run_tag="b1",
        started=AT,
        seconds=60.0,
        client_cpu_share=0.01,
        requests=requests,
    )


def test_a_boot_in_the_shape_of_v41bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is written of a boot's row and of the texts beside the ledger is what the bench itself would have written."""
    bench = _bench()
    journal = Journal(tmp_path / "ledger.jsonl")
    up = {"simulated": True, "boot": "b1", "climb": None, "on": [], "ok": True, "why": ""}
    journal.append("boot", "A", up, AT)
    trial = Trial(boot="b1", arm=(), outcome="measured", metrics=metrics.measure(bench))
    journal.append("bench", "A", record.bench(trial, bench, climb=None, simulated=True), AT)
    keep(Texts.beside(journal.path), [*(one.text for one in bench.requests), canonical(bench.workload)])
    path = tmp_path / "b1.json"
    assert run(["ledger", "export", str(path), "--boot", "b1", "--state", str(tmp_path)]) == 0
    capsys.readouterr()
    told = json.loads(path.read_text(encoding="utf-8"))
    wanted = json.loads(json.dumps(v41bench.document(bench, label="b1", model=bench.workload.name)))
    assert told == wanted
    figures = {one.name: one.value for one in named(results.of_document(told).figures)}
    assert figures["c1_per_stream_tok_s"] == pytest.approx(50.0)
    assert (told["started"], told["finished"]) == (AT, "2026-11-30T00:01:00Z")
    assert shape(told) == SHAPE


NUMBER = "number"
REQUEST = dict.fromkeys(
    ("ttft_s", "total_s", "completion_tokens", "prompt_tokens", "decode_tok_s", "chars"), NUMBER
)
SPEEDS = dict.fromkeys(("agg_tok_s", "per_stream_tok_s", "ttft_mean_s"), NUMBER)
SHAPE: dict[str, Any] = {
    **dict.fromkeys(("label", "prompt_set", "model", "notes", "started", "finished"), "text"),
    "batches": {
        "c": NUMBER,
        "category": "text",
        "wall_s": NUMBER,
        "tokens": NUMBER,
        **SPEEDS,
        "requests": REQUEST,
    },
    "prefill": dict.fromkeys(("target", "prompt_tokens", "ttft_s", "prefill_tok_s"), NUMBER),
    "headline": {"level": NUMBER, **SPEEDS},
}
"""Keys and types of a published result, a list by what each of its items is; `acceptance` is ours and beside them.

From results/exl3tp3a10/bench-exl3tp3a10.json of tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark.
"""


def shape(told: Any) -> Any:
    """Return the keys and types of a document; the items of a list must be alike."""
    if isinstance(told, dict):
        return {key: shape(value) for key, value in told.items() if key != "acceptance"}
    if isinstance(told, list):
        found = [shape(one) for one in told]
        assert all(one == found[0] for one in found)
        return found[0]
    return (
        NUMBER
        if isinstance(told, int | float) and not isinstance(told, bool)
        else "text"
        if isinstance(told, str)
        else told
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("figures.xlsx",), 2, "wanted a file that ends in .csv, .parquet, .json"),
        (("boot.json",), 2, "of one boot, and none was named"),
        (("figures.csv", "--boot", "b1"), 2, "of every boot, and --boot names one"),
        (("boot.json", "--boot", "b9"), 2, "has no bench of boot b9"),
        (("boot.json", "--boot", KNOWN), 2, "texts"),
        (("nowhere/figures.csv",), 2, "cannot be written"),
    ],
)
def test_wrong_words(
    state: Path, capsys: pytest.CaptureFixture[str], *, words: tuple[str, ...], code: int, says: str
) -> None:
    """Another ending, a boot too many or too few, one without its texts, a folder that is not there: a remedy for each."""
    file, *rest = words
    assert run(["ledger", "export", str(state / file), *rest, "--state", str(state)]) == code
    told = capsys.readouterr().err
    assert says in told
    assert "hint:" in told
