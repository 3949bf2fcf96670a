"""The report on the mini model's policies: whose part is told, what is counted, and that the page holds what the result says."""

import json
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="no SciPy beside torch here: run with the tests of the product")

import mini_moe_policies_report as report
import mini_moe_policies_tables as tables

ROOT = Path(__file__).parents[2]
WATCH = {"alarms": {"improbable": 1, "surprise": 2, "loop": 4}, "on collapsed": 3, "in time": 2}


def fate(saved, made, hits):
    """Return what is counted of a repair where `hits` collapsed."""
    return {"collapsed": hits - saved + made, "saved": saved, "made": made, "saved by no other": 0}


def told(policy, share, hits, **other):
    """Return a raw part of 100 replies, two of them with a KL."""
    both = {"improbable": fate(1, 0, hits), "both": fate(2, 1, hits)}
    return {
        "part": f"{policy} {share} at 1", "policy": policy, "share": share, "temperature": 1.0, "rows": 16,
        "bytes": share / 100, "loss": 1.0, "device": "D", "replies": 100, "collapsed": hits,
        "watches": dict.fromkeys(("improbable", "both"), WATCH), "repaired": {"0": both, "64": both},
        "reply kl": [0.5, 0.1], "reply collapsed": [0], **other,
    }  # fmt: skip


def run(*parts):
    """Return a raw file."""
    return {"asked": {}, "seconds": 1.0, "parts": list(parts)}


@pytest.fixture
def result():
    """Two runs that both measured the mild cut, the first with 5 collapses, and one step size."""
    size = {"part": "s", "policy": "water-filled", "share": 75, "rows": 64, "bytes": 0.7, "device": "D"}
    size |= {"reply kl": [0.25, 0.25], "reply collapsed": []}
    first = run(told("water-filled", 75, 5), told("uniform", 90, 8))
    second = run(told("water-filled", 75, 9), told("full", 100, 2, **{"reply kl": [0.1, 0.1]}), size)
    return report.merged([first, second], {"parts": []})


def test_the_first_named_run_is_told_the_most_bytes_first(result):
    """A part of both runs is of the first; collapsed replies have no part in the worst, but in the mean."""
    rows = result["policies"]
    assert [(one["policy"], one["collapsed"]["of"]["hits"]) for one in rows] == [
        ("full", 2), ("uniform", 8), ("water-filled", 5),
    ]  # fmt: skip
    assert (rows[2]["kl"]["mean"], rows[2]["worst reply"]) == (pytest.approx(0.3), 0.1)
    assert rows[2]["repaired"]["0"]["both"]["saved"]["rate"] == pytest.approx(2 / 5)
    assert rows[2]["watches"]["both"]["any but loops"]["of"]["hits"] == 3


def test_totals_tell_mild_cuts_from_even_depths(result):
    """What is saved and made is summed up over the cuts of a kind, and the whole model is none."""
    lines = tables.saved(result["policies"])[2:]
    assert lines == [
        "| 1 | mild | 100 | 5 | improbable | 3 | 2 | 1 | 0 | 4 | 1 | 0 | 4 |",
        "| 1 | mild | 100 | 5 | both | 3 | 2 | 2 | 1 | 4 | 2 | 1 | 4 |",
        "| 1 | all others | 100 | 8 | improbable | 3 | 2 | 1 | 0 | 7 | 1 | 0 | 7 |",
        "| 1 | all others | 100 | 8 | both | 3 | 2 | 2 | 1 | 7 | 2 | 1 | 7 |",
    ]


def test_a_row_tells_its_cost_and_what_is_saved(result):
    """KL over the first row's, collapses with their interval, replies saved less those made; another step size beside 16."""
    row = tables.costs(result["policies"])[-1]
    assert row.startswith("| water-filled | 75.0 % | 0.3 (0.1 to 0.5) | 3 | 0.10 | 5: 5.0 % (1.6 to 11) |")
    assert row.endswith("| 1 | 2 - 1 | 1 | 2 - 1 |")
    assert "| policy | steps of 16 | steps of 64 |" in tables.page(result)
    assert "| 0.3 (0.1 to 0.5), 75.0 % | 0.25 (0.25 to 0.25), 70.0 % |" in tables.page(result)


@pytest.fixture
def kept():
    """The result that the pages tell of."""
    return json.loads((ROOT / "benchmarks/results/mini_moe_policies.json").read_text(encoding="utf-8"))


def test_the_page_holds_the_tables_of_the_result(kept):
    """Every line that the report prints stands in docs/calibration.md."""
    page = (ROOT / "docs/calibration.md").read_text(encoding="utf-8").splitlines()
    missing = [line for line in tables.page(kept).splitlines() if line and line not in page]
    assert not missing


def test_the_proxys_page_tells_the_same_totals(kept):
    """What each watch sees, saves and makes at temperature 1 stands in docs/proxy.md, the mild cuts first."""
    page = (ROOT / "docs/proxy.md").read_text(encoding="utf-8").splitlines()
    told = [
        line.split(" | ")[-6:] for line in page if "calibrated now |" in line or "alone, before |" in line
    ]
    cells = [line.split(" | ")[5:] for line in tables.saved(kept["policies"])[2:6]]
    assert told == [[*of[:4], of[5], f"{of[6]} |"] for of in cells]
