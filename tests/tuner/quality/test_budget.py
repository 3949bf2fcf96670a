"""Replies within a budget, judged against replies that are read whole: recorded ones of the mini model, and every verdict there is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tuner.lever import Bounds
from tuner.quality import budget
from tuner.quality.budget import Arm, Reply

RECORDED: Any = json.loads((Path(__file__).parent / "budget_runs.json").read_text(encoding="utf-8"))


def recorded(name: str, arm: Arm) -> list[Reply]:
    """Return the replies of a run of the mini model."""
    run = RECORDED["runs"][name]
    return [
        Reply(
            arm=arm, size=16, id=str(at), tokens=RECORDED["tokens"], kl_nats=kl,
            damage="salad" if at in run["collapsed"] else "",
        )
        for at, kl in enumerate(run["kl_nats"])
    ]  # fmt: skip


def judged(name: str, bounds: Bounds | None = None) -> budget.Grade:
    """Judge a run of the mini model against one that was read whole."""
    return budget.judge([*recorded(name, "budget"), *recorded("whole", "whole")], bounds, seed=1)


def test_whole_reads_pass_against_whole_reads() -> None:
    """Other replies of the same model, as far apart as a batch takes them; 96 replies do not show that collapses stay below 2 % more."""
    found = judged("full 100")
    kl, worst, collapses = found.checks
    assert (kl.outcome, kl.bound_from) == ("passes", "floor")
    assert (worst.outcome, collapses.outcome) == ("passes", "inconclusive")
    assert found.outcome == "inconclusive"
    assert found.why.startswith("collapses: the budget adds")


@pytest.mark.parametrize(
    "name",
    ["water-filled 90", "router rank 90", "uniform 90", "fewer experts 90", "water-filled 75", "uniform 75"],
)
def test_every_cut_of_the_mini_model_fails(name: str) -> None:
    """Each adds many times what other company in a batch changes, and so does its worst reply."""
    found = judged(name)
    kl, worst, _ = found.checks
    assert found.outcome == "exceeds"
    assert (kl.outcome, worst.outcome) == ("exceeds", "exceeds")
    assert kl.added.low > 5 * kl.floor
    assert "KL, 16 in flight" in found.why


def test_a_ladder_may_allow_a_loss() -> None:
    """By its bound on KL, for the mean and for the worst reply; not for collapses."""
    found = judged("water-filled 90", Bounds(most_kl_over_floor=0.1))
    assert [(one.outcome, one.bound_from) for one in found.checks[:2]] == [("passes", "ladder")] * 2
    assert found.checks[2].bound_from == "ours"


def test_collapses_are_judged_beyond_those_read_whole() -> None:
    """Of uniform reads at 75 % of the bytes a fifth collapse."""
    assert judged("uniform 75").checks[2].outcome == "exceeds"


def made(size: int, arm: Arm, kls: list[float], damaged: int = 0, tokens: int = 100) -> list[Reply]:
    """Return replies, the first of them damaged."""
    return [
        Reply(
            arm=arm, size=size, id=str(at), tokens=tokens, kl_nats=kl, damage="loop" if at < damaged else ""
        )
        for at, kl in enumerate(kls)
    ]


def test_each_number_in_flight_is_judged_for_itself() -> None:
    """A budget that hurts alone is seen though it does not in company."""
    quiet = [0.002] * 150
    replies = [
        *made(1, "budget", [0.02] * 150), *made(1, "whole", quiet),
        *made(16, "budget", quiet), *made(16, "whole", quiet),
    ]  # fmt: skip
    found = budget.judge(replies, None, seed=1)
    assert {one.what: one.outcome for one in found.checks} == {
        "KL, 1 in flight": "exceeds",
        "KL, 16 in flight": "passes",
        "KL of the worst reply": "exceeds",
        "collapses": "passes",
    }
    with pytest.raises(ValueError, match="no reply of 6 in flight was read whole"):
        budget.judge([*replies, *made(6, "budget", quiet)], None, seed=1)


def test_the_worst_reply_is_one_that_did_not_collapse_and_is_no_fragment() -> None:
    """A collapse is counted as such; a reply of a few tokens is noise."""
    whole = made(1, "whole", [0.002] * 150)
    own = made(1, "budget", [5.0, 0.002, *[0.002] * 148], damaged=1)
    own[1] = replace(own[1], kl_nats=4.0, tokens=3)
    worst = budget.judge([*own, *whole], None, seed=1).checks[1]
    assert (worst.value, worst.outcome) == (0.002, "passes")


def test_an_engine_that_repeats_itself_to_the_bit_has_the_least_bound() -> None:
    """A floor of nothing occurs: then 0.001 nats may be added."""
    found = budget.judge([*made(1, "budget", [0.0] * 150), *made(1, "whole", [0.0] * 150)], None, seed=1)
    assert found.outcome == "passes"
    assert (found.checks[0].bound, found.checks[0].bound_from) == (0.001, "least")


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_the_interval_of_a_difference_holds_it(total: int, other: int, data: st.DataObject) -> None:
    """Newcombe's: between -1 and 1, around the difference, turned about when the arms are."""
    hits, others = data.draw(st.integers(0, total)), data.draw(st.integers(0, other))
    found = budget._difference((hits, total), (others, other))
    back = budget._difference((others, other), (hits, total))
    assert -1 - 1e-9 <= found.low <= hits / total - others / other <= found.high <= 1 + 1e-9
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))
    assert pytest.approx(norm.ppf(0.95), abs=1e-4) == budget.Z


def test_144_replies_without_a_collapse_show_it() -> None:
    """What the battery that ships asks for is enough for its bound."""
    quiet = [0.001] * 144
    found = budget.judge([*made(1, "budget", quiet), *made(1, "whole", quiet)], None, seed=1)
    assert found.checks[2].outcome == "passes"
    few = quiet[:100]
    found = budget.judge([*made(1, "budget", few), *made(1, "whole", few)], None, seed=1)
    assert found.checks[2].outcome == "inconclusive"
