"""How far a boot came, and how the last ones ended, from rows alone."""

from typing import TYPE_CHECKING

from ledger.bodies import StepState
from ledger.steps import CLEARED, failures_in_a_row, last_trace

if TYPE_CHECKING:
    from conftest import Story


def _step(story: "Story", boot: str, stage: str, state: StepState) -> None:
    story.add("step", {"boot": boot, "stage": stage, "state": state, "why": "", "recipe_digest": "0" * 64})


def test_a_boot_without_its_row_was_broken_off(story: "Story") -> None:
    """The last step says where; a boot row, or a clearing, ends it."""
    assert last_trace(story.rows, "A", simulated=True) is None
    _step(story, "b1", "check", "began")
    _step(story, "b1", "check", "done")
    _step(story, "b1", "launch", "began")
    trace = last_trace(story.rows, "A", simulated=True)
    assert trace is not None
    assert (trace.boot, trace.stage, trace.state, trace.steps, trace.is_ended) == (
        "b1",
        "launch",
        "began",
        3,
        False,
    )
    story.boot(None, ())  # b1 by the story's own count
    ended = last_trace(story.rows, "A", simulated=True)
    assert ended is not None
    assert ended.is_ended
    _step(story, "b2", "settle", "began")
    _step(story, "b2", CLEARED, "done")
    cleared = last_trace(story.rows, "A", simulated=True)
    assert cleared is not None
    assert cleared.is_ended


def test_lines_and_practice_are_kept_apart(story: "Story") -> None:
    """A boot of another line, or of a practice line, says nothing of this one."""
    _step(story, "b1", "check", "began")
    assert last_trace(story.rows, "B", simulated=True) is None
    assert last_trace(story.rows, "A", simulated=False) is None


def test_only_boots_that_tried_count_as_failures(story: "Story") -> None:
    """Two failures in a row are two; a success ends the streak; a boot that a gate stopped, or of a climb, is neither."""
    story.boot(None, (), why="rank died")
    story.boot(None, ())
    story.boot(None, (), why="spark-a2: rank died")
    story.boot(None, (), why="a gate", void=True)
    story.boot("climb", (), why="a lever")
    story.boot(None, (), why="spark-a2: again")
    failed = failures_in_a_row(story.rows, "A", simulated=True)
    assert [one.why for one in failed] == ["spark-a2: rank died", "spark-a2: again"]
    story.boot(None, ())
    assert failures_in_a_row(story.rows, "A", simulated=True) == ()
