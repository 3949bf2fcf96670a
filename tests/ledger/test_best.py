"""The best configuration of a line."""

from math import exp, log, sqrt
from typing import TYPE_CHECKING

import pytest

from ledger.best import best, summarise
from ledger.render import render

if TYPE_CHECKING:
    from conftest import Story


def test_the_figure_is_a_geometric_mean_with_its_t_interval() -> None:
    """Three boots: the interval is exp(mean of logs -/+ 4.3027 s / sqrt 3), 4.3027 from a table of t at 2 degrees."""
    found = summarise("c1", "tok/s", (60.0, 62.0, 65.0))
    logs = [log(60), log(62), log(65)]
    mean = sum(logs) / 3
    half = 4.302653 * sqrt(sum((one - mean) ** 2 for one in logs) / 2) / sqrt(3)
    assert found.low is not None
    assert found.high is not None
    assert found.n == 3
    assert found.mean == pytest.approx((60 * 62 * 65) ** (1 / 3))
    assert (found.low, found.high) == pytest.approx((exp(mean - half), exp(mean + half)), rel=1e-6)


@pytest.mark.parametrize("values", [(62.0,), (0.0, 1.0)])
def test_what_has_no_interval_says_so(values: tuple[float, ...]) -> None:
    """One boot says nothing about scatter, and zero has no logarithm: mean and n, no interval."""
    found = summarise("c1", "tok/s", values)
    assert (found.n, found.low, found.high) == (len(values), None, None)


def test_only_boots_of_exactly_the_stack_count(story: "Story") -> None:
    """Neither the base nor a lever under test nor a void or failed boot enters; the order of levers does not matter."""
    story.plan("c1", ["ROCE", "ASYNC", "HOT"])
    story.bench("c1", [], 60.0)
    story.bench("c1", ["ROCE"], 63.0)
    story.bench("c1", ["ROCE", "ASYNC"], 66.0)
    story.bench("c1", ["ASYNC", "ROCE"], 68.0)
    story.bench("c1", ["ROCE", "ASYNC"], 20.0, voids=["slow state"])
    story.boot("c1", ["ROCE", "ASYNC"], why="no answer")
    story.bench("c1", ["ROCE", "ASYNC", "HOT"], 50.0)
    story.bench(None, ["ROCE", "ASYNC"], 99.0)
    story.end("c1", ["ROCE", "ASYNC"])
    (found,) = best(story.rows)
    assert (found.stack, found.boots) == (("ROCE", "ASYNC"), 2)
    assert found.figures[0].mean == pytest.approx(sqrt(66 * 68))


def test_an_ended_climb_stands_until_another_ends(story: "Story") -> None:
    """A new climb takes the place of the last one only when it has come to its end with figures."""
    story.plan("c1", ["ROCE"])
    story.bench("c1", ["ROCE"], 63.0)
    story.end("c1", ["ROCE"])
    story.plan("c2", ["ROCE"])
    story.bench("c2", [], 60.0)
    assert [one.climb.id for one in best(story.rows)] == ["c1"]
    story.end("c2", [])
    assert [one.climb.id for one in best(story.rows)] == ["c2"]
    story.plan("c3", ["ROCE"])
    story.end("c3", [])
    assert [one.climb.id for one in best(story.rows)] == ["c2"]


def test_an_open_climb_counts_while_there_is_no_other(story: "Story") -> None:
    """The first climb of a line is shown as it stands."""
    story.plan("c1", ["ROCE"])
    assert best(story.rows) == ()
    story.bench("c1", [], 60.0)
    (found,) = best(story.rows)
    assert (found.stack, found.boots, found.climb.ended) == ((), 1, None)


def test_practice_and_real_figures_never_mix(story: "Story") -> None:
    """The same line, measured and simulated, gives two results, the real one first."""
    story.plan("c1", ["ROCE"])
    story.bench("c1", [], 60.0)
    story.simulated = False
    story.plan("c1", ["ROCE"])
    story.bench("c1", [], 50.0)
    found = best(story.rows)
    assert [(one.climb.simulated, one.figures[0].mean) for one in found] == [(False, 50.0), (True, 60.0)]


def test_of_a_confirmed_stack_only_fresh_boots_count(story: "Story") -> None:
    """The boots that decided read high; those of the confirmation are what is published, with the gain against the base."""
    story.plan("c1", ["ROCE"])
    for value in (80.0, 82.0, 81.0):
        story.bench("c1", ["ROCE"], value)
    for value in (70.0, 72.0):
        story.bench("c1", ["ROCE"], value)
    gain = {"c1": {"estimate": 1.08, "low": 1.05, "high": 1.11, "n_arm": 2, "n_base": 2}}
    end = {"climb": "c1", "ended": True, "stack": ["ROCE"], "why": "done"}
    story.add("note", {**end, "confirmed": {"gain": gain, "worth": {}, "quality": ""}})
    (found,) = best(story.rows)
    assert (found.boots, found.figures[0].n) == (2, 2)
    assert found.figures[0].mean == pytest.approx((70 * 72) ** 0.5)
    assert "Confirmed on fresh boots, against as many of the base: " in render(story.rows)
    assert "+8.0 % [+5.0, +11.0]" in render(story.rows)
