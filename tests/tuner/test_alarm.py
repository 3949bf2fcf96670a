"""The alarms over a live stream: when they trip, and that cutting the stream otherwise changes nothing."""

import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tuner.alarm import SURPRISE_WINDOW, Alarm, SurpriseWatch, TrigramWatch, Tripped

from .corpus import held

LOW, HIGH = -20.0, -0.2
SURPRISES: Any = yaml.safe_load((Path(__file__).parent / "data" / "surprise.yml").read_text(encoding="utf-8"))


def fed(logprobs: list[float]) -> list[int]:
    """Return where an alarm tripped."""
    alarm = Alarm()
    return [tripped.at for one in logprobs if (tripped := alarm.feed(one))]


def surprised(logprobs: list[float], limit: float | None) -> tuple[list[tuple[int, int]], float]:
    """Return where a watch of the mean tripped, each with the clean tokens before it, and the worst mean."""
    watch = SurpriseWatch(limit=limit)
    found = [(tripped.at, tripped.since) for one in logprobs if (tripped := watch.feed(one))]
    return found, watch.worst


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


@pytest.mark.parametrize("case", SURPRISES, ids=lambda case: case["name"])
def test_the_mean_of_64_tokens(case: dict[str, Any]) -> None:
    """It trips where the case says, with what is clean before it, and keeps the worst."""
    logprobs = [float(value) for value, number in case["runs"] for _ in range(number)]
    found, worst = surprised(logprobs, case["limit"])
    assert found == ([(case["at"], case["since"])] if "at" in case else [])
    assert worst == pytest.approx(case["worst"])


def test_the_mean_says_what_it_measured() -> None:
    """With the limit beside it."""
    watch = SurpriseWatch(limit=3.25)
    (tripped,) = (one for _ in range(SURPRISE_WINDOW) if (one := watch.feed(-4.125)))
    assert tripped.measured == "a mean surprise of 4.12 nats over 64 tokens"
    assert tripped.wanted == "at most 3.25"


TOKENS = st.lists(st.floats(-40.0, 0.0) | st.sampled_from([math.nan, -math.inf, -9999.0]), max_size=300)


@given(logprobs=TOKENS, limits=st.tuples(st.floats(0.1, 20.0), st.floats(0.1, 20.0)))
def test_a_higher_limit_never_trips_earlier(logprobs: list[float], limits: tuple[float, float]) -> None:
    """And a limit trips exactly where some full window lies above it, which `worst` tells without any."""
    low, high = sorted(limits)
    (at_low, worst), (at_high, same) = surprised(logprobs, low), surprised(logprobs, high)
    assert worst == same == surprised(logprobs, None)[1]
    assert (bool(at_low), bool(at_high)) == (worst > low, worst > high)
    assert not at_high or at_low[0][0] <= at_high[0][0]


@given(logprobs=TOKENS)
def test_the_worst_is_that_of_all_full_windows(logprobs: list[float]) -> None:
    """As each would be summed up by itself."""
    counted = [-one if one > -32 else 32.0 for one in logprobs]
    ends = range(SURPRISE_WINDOW, len(counted) + 1)
    means = [math.fsum(counted[end - SURPRISE_WINDOW : end]) / SURPRISE_WINDOW for end in ends]
    assert surprised(logprobs, None)[1] == max([0.0, *means])
