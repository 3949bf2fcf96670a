"""Figures of others, judged anew: held against what their owners kept, never proven by one boot."""

from dataclasses import replace

import pytest

from tuner.lever import Ladder
from tuner.noise import Noise
from tuner.rejudge import Reading, noise_of, rejudge

C1, C6, PREFILL = "c1_per_stream_tok_s", "c6_agg_tok_s", "prefill_47k_tok_s"
NOISE = Noise(scatter={C1: 0.01, C6: 0.03}, correlation=0.45)


def reading(row: str, c1: float, c6: float, theirs: str, line: str = "A") -> Reading:
    """One boot of theirs."""
    return Reading(line=line, row=row, lever=row, figures={C1: c1, C6: c6, PREFILL: 1400.0}, theirs=theirs)


def test_a_row_is_held_against_the_last_one_that_was_kept(ladder: Ladder) -> None:
    """On its own line; a rejected row is nothing to compare with, and neither is a base with another base."""
    rows = [
        reading("base", 60, 180, "base"),
        reading("better", 66, 180, "accept"),
        reading("worse", 60, 170, "reject"),
        reading("last", 66, 198, "accept"),
        reading("lonely", 90, 300, "accept", line="B"),
    ]
    found = {one.reading.row: one for one in rejudge(rows, ladder, NOISE)}
    assert {name: one.against for name, one in found.items()} == {
        "better": "base",
        "worse": "better",
        "last": "better",
    }
    assert found["better"].ratios[C1] == pytest.approx(1.1)
    assert (found["better"].seed_rule, found["worse"].seed_rule) == ("accept", "reject")


def test_more_boots_for_less_gain_and_none_below_what_matters(ladder: Ladder) -> None:
    """A gain of 20 % takes fewer boots than one of 6 %; below +4 % it is always +4 % that is planned for."""
    base = reading("base", 60, 180, "base")

    def boots(c6: float) -> int | None:
        return rejudge([base, reading("x", 50, c6, "reject")], ladder, NOISE)[0].boots

    assert boots(216) < boots(191) < boots(187.2) == boots(181)


@pytest.mark.parametrize(("c1", "least", "most"), [(60, 0.4, 0.8), (63, 0.0, 0.01)])
def test_noise_alone_reads_small_gains_often(ladder: Ladder, c1: float, least: float, most: float) -> None:
    """The better of two metrics reads no loss in most useless rows; five per cent on one stream hardly ever."""
    found = rejudge([reading("base", 60, 180, "base"), reading("x", c1, 178, "accept")], ladder, NOISE)[0]
    assert found.chance is not None
    assert least <= found.chance <= most


def test_rows_called_base_tell_how_much_boots_differ() -> None:
    """Two of a line give its scatter; one of each line gives nothing, and then it is what others report."""
    twice = [reading("b1", 60, 180, "base"), reading("b2", 61.2, 190, "base")]
    found = noise_of(twice, NOISE)
    assert found.boots == 2
    assert found.scatter[C1] == pytest.approx(0.014, abs=0.001)
    apart = [twice[0], replace(twice[1], line="B")]
    assert noise_of(apart, NOISE) == NOISE
