"""Rows of tables."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ledger.conclusions import Effect
from ledger.entry import KINDS
from ledger.history import climbs
from ledger.journal import Journal
from ledger.table import effect, ladder, listed, reported

if TYPE_CHECKING:
    from conftest import Story

V1 = Journal(Path(__file__).parent / "journals" / "v1.jsonl")


@pytest.mark.parametrize(
    ("estimate", "low", "high", "text"),
    [
        (1.059, 1.048, 1.070, "+5.9 % [+4.8, +7.0]"),
        (0.951, 0.932, 0.970, "-4.9 % [-6.8, -3.0]"),
        (1.013, 0.994, 1.032, "~ [-0.6, +3.2]"),
        (1.013, 1.0, 1.032, "~ [+0.0, +3.2]"),
        (1.05, 0.0, None, "~ [-100.0, ?]"),
        (1.05, 1.01, None, "+5.0 % [+1.0, ?]"),
        (None, 0.0, None, "not measured"),
    ],
)
def test_an_effect_as_text(estimate: float | None, low: float, high: float | None, text: str) -> None:
    """An interval that includes no difference shows `~`, a bound that is not known yet `?`."""
    assert effect(Effect(metric="c1", estimate=estimate, low=low, high=high)) == text


def test_the_ladder_follows_the_plan(story: "Story") -> None:
    """Every lever of the plan has its rung in the plan's order, one without a verdict is open."""
    story.plan("c1", ["ROCE", "ASYNC"])
    story.verdict("c1", "ASYNC", "reject", low=0.9, high=0.98)
    rungs = ladder(climbs(story.rows)[0])
    assert [(one.lever, one.verdict) for one in rungs] == [("ROCE", "open"), ("ASYNC", "reject")]
    assert rungs[1].effects == (("c1_per_stream_tok_s", "-6.0 % [-10.0, -2.0]"),)
    assert (rungs[1].boots, rungs[1].voids, rungs[1].seed_rule, rungs[1].why) == (
        3,
        0,
        "accept",
        "as measured",
    )


def test_every_kind_of_row_is_listed() -> None:
    """The list has all rows, the retracted one marked, others' figures and practice rows labelled."""
    rows = listed(V1.read().rows)
    assert {one.kind for one in rows} == set(KINDS)
    assert {one.label for one in rows if one.kind == "import"} == {"reported"}
    assert {one.label for one in rows if one.kind != "import"} == {"simulated"}
    (gone,) = [one for one in rows if one.retracted]
    assert (gone.kind, gone.about) == ("note", "the fan of spark-a1 was cleaned; résumé ✓")
    told = {one.kind: one.about for one in rows}
    assert told["verdict"] == "ROCE: accept after 3 boots"
    assert told["plan"] == "climb c1: ladder quick, 2 levers on v41-flash-exl3"
    assert told["boot"].endswith("ROCE: failed: rank 1 did not start: No such image")
    assert told["bench"].endswith("ROCE: void: cell c6 stream 3: no usage block")
    assert told["retract"] == f"row {gone.n}: it was spark-a2"


def test_a_boot_that_a_gate_stopped_is_listed_as_void(story: "Story") -> None:
    """The list tells it from a boot that failed."""
    story.boot("c1", ["ROCE"], why="gate gemv: measured 70", void=True)
    story.boot("c1", ["ROCE"], why="rank 2 left with 1")
    assert [one.about for one in listed(story.rows)] == [
        "b1 ROCE: void: gate gemv: measured 70",
        "b2 ROCE: failed: rank 2 left with 1",
    ]


def test_reported_rows_keep_whose_they_are() -> None:
    """Each imported row says which boot of theirs it is and whose verdict; what they did not report is absent."""
    (file,) = reported(V1.read().rows)
    first = file.rows[0]
    assert (first.row, first.their_verdict) == ("exl3-G0-A-base0052", "base")
    assert first.figures == (
        ("c1_per_stream_tok_s", 61.1),
        ("c6_agg_tok_s", 178.7),
        ("prefill_47k_tok_s", 1363.0),
    )
