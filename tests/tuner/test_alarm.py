"""The alarms over a live stream: when they trip, and that cutting the stream otherwise changes nothing."""

import math
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tuner.alarm import Alarm, TrigramWatch, Tripped

from .corpus import held

LOW, HIGH = -20.0, -0.2


def fed(logprobs: list[float]) -> list[int]:
    """Return where an alarm tripped."""
    alarm = Alarm()
    return [tripped.at for one in logprobs if (tripped := alarm.feed(one))]


def watched(pieces: list[str]) -> list[Tripped]:
    """Return what a watch saw."""
    watch = TrigramWatch()
    return [tripped for piece in pieces if (tripped := watch.feed(piece))]


def test_three_improbable_tokens_within_128_trip_the_alarm_once() -> None:
    """The third one trips it, the fourth does not again."""
    assert fed([LOW, *[HIGH] * 60, LOW, *[HIGH] * 65, LOW, LOW]) == [127]


def test_three_improbable_tokens_further_apart_do_not() -> None:
    """The first has left the window when the third comes."""
    assert fed([LOW, *[HIGH] * 60, LOW, *[HIGH] * 66, LOW]) == []


def test_a_logprob_that_is_no_number_counts_as_improbable() -> None:
    """Logits that are no numbers are how some collapses begin."""
    assert fed([math.nan, -math.inf, math.nan]) == [2]


def test_a_loop_trips_the_watch_while_it_streams() -> None:
    """Within some two windows of words, and once."""
    words = ["It", "began", "well", "enough,", "with", "a", "plan.", ""] + [
        "and",
        "then",
        "we",
        "look",
        "again",
        "",
    ] * 60
    (tripped,) = watched([f"{word} " for word in words])
    assert tripped.at < 150
    assert "times among" in tripped.measured


def test_whole_replies_do_not_trip_the_watch() -> None:
    """Of 25 replies of each whole generator that no threshold was chosen on, at most 0.5 % trip it."""
    tripped = [
        kind
        for kind, make in held.HEALTHY.items()
        for number in range(25)
        if watched([make(Random(f"{kind} {number}")).text])  # noqa: S311 - a made-up reply
    ]
    assert len(tripped) <= 0.005 * 25 * len(held.HEALTHY), tripped


@given(cuts=st.lists(st.integers(0, 900), max_size=12), seed=st.integers(0, 50))
def test_how_a_stream_is_cut_makes_no_difference(cuts: list[int], seed: int) -> None:
    """A proxy sees pieces of any size, half words among them."""
    chance = Random(seed)  # noqa: S311 - a made-up reply
    kind = chance.choice(sorted(held.DAMAGED))
    text = held.DAMAGED[kind](chance).text
    ends = [*sorted(min(cut, len(text)) for cut in cuts), len(text)]
    starts = [0, *ends[:-1]]
    assert watched([text[start:end] for start, end in zip(starts, ends, strict=True)]) == watched([text])


def test_a_word_without_end_trips_the_watch() -> None:
    """Nothing is kept beyond its longest word, however the stream is cut."""
    (tripped,) = watched(["a"] * 6000)
    assert tripped == Tripped(at=1, since=0, measured="a word without end", wanted="at most 4096 letters")
    assert watched(["a" * 6000]) == [tripped]
