"""Sides and comparisons: what a word means, ratios with intervals, and warnings as text."""

from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scipy.stats import ttest_ind

from ledger.compared import compared
from ledger.epochs import epochs
from ledger.journal import Journal
from ledger.sides import Side, SideFault, resolve

if TYPE_CHECKING:
    from conftest import Story

DEMO = Path(__file__).parents[2] / "docs" / "demo" / "ledger.jsonl"
METRIC = ("c1_per_stream_tok_s", "tok/s")


@pytest.fixture
def told(story: "Story") -> "Story":
    """A climb with three boots of the base and two of a lever, one of them void."""
    story.plan("c1", ["ROCE"])
    for value in (60.0, 61.0, 62.0):
        story.bench("c1", [], value)
    story.bench("c1", ["ROCE"], 66.0)
    story.bench("c1", ["ROCE"], 30.0, voids=["slow state"])
    story.end("c1", ["ROCE"])
    return story


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("base", (60.0, 61.0, 62.0)),
        ("ROCE", (66.0,)),
        ("c1", (66.0,)),
        ("c1:base", (60.0, 61.0, 62.0)),
        ("b2", (61.0,)),
        ("epoch:1", (60.0, 61.0)),
        ("epoch:2", (62.0,)),
        ("epoch:2:ROCE", (66.0,)),
    ],
)
def test_a_word_means_its_sound_boots(told: "Story", word: str, values: tuple[float, ...]) -> None:
    """A boot, a stack, a climb, a stack of it, an epoch: the values of the boots that count, void ones left out."""
    of_line = epochs(
        [("b1", {"kernel": "1"}), ("b2", {"kernel": "1"}), *((f"b{n}", {"kernel": "2"}) for n in (3, 4, 5))]
    )
    assert resolve(word, told.rows, of_line, None).values[METRIC] == values


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("ROCEE", "near to it: ROCE"),
        ("b9", "is no file, boot, climb, stack, epoch or imported row"),
        ("b5", "no boot of it was measured; 1 were void, the first: slow state"),
        ("epoch:3", "the line has 0 epochs"),
    ],
)
def test_a_word_that_means_nothing_is_told_with_what_would(told: "Story", word: str, says: str) -> None:
    """A misspelt or void side says so and names what is near."""
    with pytest.raises(SideFault) as caught:
        resolve(word, told.rows, (), None)
    assert says in str(caught.value)


def test_the_last_climb_that_has_a_stack_gives_its_boots(told: "Story") -> None:
    """A stack's name means the boots of one climb, never of several."""
    told.plan("c2", ["ROCE"])
    told.bench("c2", [], 50.0)
    assert resolve("base", told.rows, (), None).values[METRIC] == (50.0,)
    assert resolve("c1:base", told.rows, (), None).values[METRIC] == (60.0, 61.0, 62.0)


def test_the_interval_is_that_of_students_test() -> None:
    """On the demo's ledger: ratio and 95 % bounds as scipy's two-sample t-test gives them on the logarithms."""
    rows = Journal(DEMO).read().rows
    sides = [resolve(word, rows, (), None) for word in ("base", "nccl-channels")]
    found = {one.metric: one for one in compared(sides[0], sides[1], ()).lines}["c1_per_stream_tok_s"]
    import numpy as np

    logs = [np.log(side.values[METRIC]) for side in sides]
    bounds = ttest_ind(logs[1], logs[0]).confidence_interval(0.95)
    assert found.comparison.estimate == pytest.approx(np.exp(logs[1].mean() - logs[0].mean()))
    assert (found.comparison.low, found.comparison.high) == pytest.approx(
        (np.exp(bounds.low), np.exp(bounds.high)), rel=1e-9
    )
    assert found.differs


def test_one_boot_each_shows_no_difference(told: "Story") -> None:
    """Without two boots of a side nothing tells the noise: no difference is shown, and a warning says why."""
    found = compared(resolve("b1", told.rows, (), None), resolve("b4", told.rows, (), None), ())
    assert not found.lines[0].differs
    assert any("1 and 1 boots" in one for one in found.warnings)


def test_what_a_side_lacks_is_named() -> None:
    """A metric of one side, or one without a logarithm, is no ratio and is not lost."""
    first = Side(name="a", label="", values={("x", "s"): (1.0,), ("y", "s"): (1.0,), ("z", "s"): (0.0,)})
    second = Side(name="b", label="reported", values={("x", "s"): (sqrt(2),), ("z", "s"): (1.0,)})
    found = compared(first, second, ())
    assert [one.metric for one in found.lines] == ["x"]
    assert found.only == ("y", "z")
    assert found.lines[0].comparison.estimate == pytest.approx(sqrt(2))
    assert (
        found.warnings[0]
        == "a is measured by us on a real line and b is reported: no verdict can rest on both"
    )


def test_warnings_name_what_else_differs(story: "Story") -> None:
    """Another workload, a warm cache, another age of the engine, another epoch with what changed: each is said in words."""
    story.plan("c1", ["ROCE"])
    for on, workload, cached, started in (
        ((), "a" * 64, 0.0, "2026-10-03T00:12:00Z"),
        (("ROCE",), "b" * 64, 4096.0, "2026-10-03T02:00:00Z"),
    ):
        story.boot("c1", on)
        story.add(
            "bench",
            {
                "boot": f"b{story.boots}",
                "climb": "c1",
                "on": on,
                "voids": [],
                "started": started,
                "metrics": [{"name": METRIC[0], "value": 60.0, "unit": "tok/s", "n": 1}],
                "workload_digest": workload,
                "counters": {"cached": cached},
            },
        )
    of_line = epochs([("b1", {"kernel": "6.17"}), ("b2", {"kernel": "6.18"})])
    sides = [resolve(word, story.rows, of_line, None) for word in ("base", "ROCE")]
    told = "\n".join(compared(sides[0], sides[1], of_line).warnings)
    for words in (
        "another workload, so other questions were asked: aaaaaaaaaaaa against bbbbbbbbbbbb",
        "the cache was warm in 1 boots, up to 4,096 prompt tokens came from it",
        "another age of the engine when it was measured: 1 min 00 s against 1 h 27 min",
        "another epoch: 1 against 2",
        "epoch 2: kernel: 6.17 before, 6.18 after",
    ):
        assert words in told
