"""Drift: a change of level is found where it is, and noise alone seldom makes one."""

import math
import random
from typing import TYPE_CHECKING

import pytest

from ledger.boots import measured
from ledger.drift import LEAST_BOOTS, Series, changes, series

if TYPE_CHECKING:
    from conftest import Story

NOISE = 0.02
ROUNDS = 200


def _series(story: "Story", values: list[float]) -> Series:
    for value in values:
        story.bench(None, [], value)
    (found,) = series(measured(story.rows))
    story.rows.clear()
    return found


@pytest.mark.parametrize("boots", [12, 40])
def test_noise_alone_seldom_makes_a_change(story: "Story", boots: int) -> None:
    """Of 200 series without any change, 2 % noise from boot to boot, at most 1 in 20 shows one."""
    draw = random.Random(11)  # noqa: S311  # made-up boots from a seed
    found = sum(
        bool(changes(_series(story, [60 * math.exp(draw.gauss(0, NOISE)) for _ in range(boots)])))
        for _ in range(ROUNDS)
    )
    assert found <= ROUNDS / 20


def test_a_loss_of_5_percent_is_found_where_it_began(story: "Story") -> None:
    """Of 200 series of 30 boots that lose 5 % in the middle, at least 9 in 10 show one change within two boots of it."""
    draw = random.Random(12)  # noqa: S311  # made-up boots from a seed
    right = 0
    for _ in range(ROUNDS):
        values = [60 * math.exp(draw.gauss(0, NOISE)) * (0.95 if at >= 15 else 1) for at in range(30)]
        found = changes(_series(story, values))
        right += len(found) == 1 and abs(int(found[0].after.boot.removeprefix("b")) % 30 - 16) <= 2
    assert right >= ROUNDS * 9 / 10


def test_a_change_says_its_size_and_its_two_boots(story: "Story") -> None:
    """Levels 60 and 57: the ratio, an interval around it, the last boot before and the first after."""
    values = [60.0, 60.3, 59.8, 60.1, 59.9, 57.0, 57.2, 56.8, 57.1, 56.9]
    (found,) = changes(_series(story, values))
    assert (found.before.boot, found.after.boot) == ("b5", "b6")
    assert found.comparison.estimate == pytest.approx(57 / 60.02, rel=1e-3)
    assert found.comparison.high < 1


def test_stacks_workloads_and_lines_are_series_of_their_own(story: "Story") -> None:
    """Boots of two stacks are never one series, nor are void ones any."""
    story.bench(None, [], 60.0)
    story.bench(None, ["ROCE"], 63.0)
    story.bench(None, [], 20.0, voids=["slow state"])
    story.line = "B"
    story.bench(None, [], 61.0)
    found = {(one.line, one.stack): one.values for one in series(measured(story.rows))}
    assert found == {("A", "base"): (60.0,), ("A", "ROCE"): (63.0,), ("B", "base"): (61.0,)}


@pytest.mark.parametrize("values", [[60.0] * (LEAST_BOOTS - 1), [60.0] * 20], ids=["short", "constant"])
def test_what_cannot_be_told_is_no_change(story: "Story", values: list[float]) -> None:
    """Too few boots, or boots without any noise, show no change."""
    assert changes(_series(story, values)) == ()
