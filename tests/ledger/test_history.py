"""From rows back to climbs, and on with the last one."""

from typing import TYPE_CHECKING

import pytest

from ledger.history import climbs, last_climb
from ledger.retractions import live

if TYPE_CHECKING:
    from conftest import Story


def test_a_fresh_line_has_no_climb(story: "Story") -> None:
    """Without a plan there is nothing to resume."""
    story.bench(None, [], 60.0)
    assert last_climb(story.rows, "A", simulated=True) is None


def test_an_interrupted_climb_comes_back(story: "Story") -> None:
    """Measured, void and failed boots come back in order with their reasons, and so do the verdicts."""
    story.plan("c1", ["ROCE", "ASYNC"])
    story.bench("c1", [], 60.0)
    story.bench("c1", ["ROCE"], 64.0, voids=["cache was warm", "another client"])
    story.boot("c1", ["ROCE"], why="rank 2 left with 1")
    story.bench("c1", ["ROCE"], 63.0)
    story.verdict("c1", "ROCE", "accept", low=1.01, high=1.09)
    climb = last_climb(story.rows, "A", simulated=True)
    assert climb is not None
    assert [(one.boot, one.arm, one.outcome, one.why) for one in climb.trials] == [
        ("b1", (), "measured", ""),
        ("b2", ("ROCE",), "void", "cache was warm; another client"),
        ("b3", ("ROCE",), "failed", "rank 2 left with 1"),
        ("b4", ("ROCE",), "measured", ""),
    ]
    (metric,) = climb.trials[3].metrics
    assert (metric.name, metric.value, metric.unit, metric.n) == ("c1_per_stream_tok_s", 63.0, "tok/s", 8)
    assert [one.lever for one in climb.verdicts] == ["ROCE"]
    assert climb.stack == ("ROCE",)
    assert climb.plan.levers == ("ROCE", "ASYNC")


def test_a_boot_without_its_bench_is_done_again(story: "Story") -> None:
    """A boot that came up when the tuner died is no trial."""
    story.plan("c1", ["ROCE"])
    story.boot("c1", [])
    climb = last_climb(story.rows, "A", simulated=True)
    assert climb is not None
    assert climb.trials == ()


def test_a_boot_that_a_gate_stopped_is_no_trial(story: "Story") -> None:
    """It says something of a node: neither a failure of its levers nor one of the voids that leave a lever open."""
    story.plan("c1", ["ROCE"])
    story.boot("c1", ["ROCE"], why="spark-a1: gate gemv: measured 70", void=True)
    story.bench("c1", ["ROCE"], 63.0)
    (climb,) = climbs(story.rows)
    assert [(one.boot, one.outcome) for one in climb.trials] == [("b2", "measured")]


def test_a_boot_counts_once(story: "Story") -> None:
    """A second bench of the same boot replaces the first: two passes are not two boots."""
    story.plan("c1", ["ROCE"])
    story.bench("c1", [], 60.0)
    story.figures("c1", [], 61.0)
    (climb,) = climbs(story.rows)
    assert [one.metrics[0].value for one in climb.trials] == [61.0]


def test_an_ended_climb_says_so(story: "Story") -> None:
    """After the note of its end a climb is closed, with the stack that the note says; any other note closes nothing."""
    story.plan("c1", ["ROCE"])
    story.add("note", {"text": "fan cleaned", "climb": "c1"})
    climb = last_climb(story.rows, "A", simulated=True)
    assert climb is not None
    assert climb.ended is None
    story.end("c1", ["ROCE"])
    climb = last_climb(story.rows, "A", simulated=True)
    assert climb is not None
    assert climb.ended is not None
    assert climb.stack == ("ROCE",)


def test_the_last_climb_is_the_one_begun_last(story: "Story") -> None:
    """A climb that was left open and followed by another is history, even when that one has ended."""
    story.plan("c1", ["ROCE"])
    story.plan("c2", ["ASYNC"])
    story.end("c2", [])
    climb = last_climb(story.rows, "A", simulated=True)
    assert climb is not None
    assert climb.id == "c2"


@pytest.mark.parametrize(("line", "simulated"), [("B", True), ("A", False)])
def test_other_lines_stay_apart(story: "Story", line: str, *, simulated: bool) -> None:
    """Neither another line's climb nor the practice line's is taken for this one's, not even under the same id."""
    story.plan("c1", ["ROCE"])
    story.bench("c1", [], 60.0)
    story.line, story.simulated = line, simulated
    story.plan("c1", ["ASYNC"])
    story.bench("c1", [], 70.0)
    climb = last_climb(story.rows, line, simulated=simulated)
    assert climb is not None
    assert (climb.plan.levers, [one.boot for one in climb.trials]) == (("ASYNC",), ["b2"])


def test_the_last_verdict_on_a_lever_counts(story: "Story") -> None:
    """A lever that was left open and accepted later joins the stack where it was accepted."""
    story.plan("c1", ["ROCE", "ASYNC"])
    story.verdict("c1", "ROCE", "inconclusive", low=0.99, high=1.04)
    story.verdict("c1", "ASYNC", "accept", low=1.01, high=1.04)
    story.verdict("c1", "ROCE", "accept", low=1.02, high=1.04)
    assert climbs(story.rows)[0].stack == ("ASYNC", "ROCE")


def test_retracted_rows_are_left_out(story: "Story") -> None:
    """A retracted bench is no trial, a retracted boot takes its bench along, a retracted retraction brings it back."""
    story.plan("c1", ["ROCE"])
    bench = story.bench("c1", [], 60.0)
    story.bench("c1", [], 61.0)
    boot = story.rows[-2]
    story.add("retract", {"retracts": bench.n, "why": "the wrong image"})
    back = story.add("retract", {"retracts": boot.n, "why": "mistaken"})
    assert [one.boot for one in climbs(story.rows)[0].trials] == []
    story.add("retract", {"retracts": back.n, "why": "was right after all"})
    assert [one.boot for one in climbs(story.rows)[0].trials] == ["b2"]
    assert bench in story.rows
    assert bench not in live(story.rows)
