"""Thresholds from whole replies: what they promise of others, alone and together, and the file they stand in."""

import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from proxy import calibration
from proxy.depth import LOWEST, Depth, Depths
from proxy.said import Said
from proxy.thresholds import Limits, Thresholds
from proxy.watch import Watch
from sparkctl import edge
from sparkctl.errors import FileFault
from tuner.alarm import Alarm

FILES = Path(__file__).parent / "thresholds"


def one(logprob: float, surprise: float = 0.0) -> Depths:
    """Return a reply as two numbers tell it."""
    return Depths(logprob=logprob, surprise=surprise)


@given(
    st.lists(st.sampled_from([-0.1, -2.0, -5.0, -9.0, -13.0, math.nan, -math.inf]), max_size=300),
    st.sampled_from([-4.0, -8.0, -11.5]),
)
def test_depth_says_at_which_threshold_the_alarm_trips(logprobs: list[float], threshold: float) -> None:
    """At exactly those above it."""
    depth, alarm = Depth(), Alarm(logprob=threshold)
    tripped = [alarm.feed(logprob) for logprob in logprobs]
    for logprob in logprobs:
        depth.feed(logprob)
    assert any(tripped) == (depth.depth < threshold)


@given(
    st.lists(st.sampled_from([-0.1, -2.0, -5.0, -9.0, -13.0]), max_size=300),
    st.lists(st.integers(1, 300), max_size=20),
    st.sampled_from([1.0, 3.0, 6.0]),
)
def test_how_tokens_come_in_events_makes_no_difference(
    logprobs: list[float], sizes: list[int], limit: float
) -> None:
    """The first alarm and the depths are the same, be it a token an event, several, or the whole reply in one."""

    def seen(parts: list[list[float]]) -> tuple[object, ...]:
        watch = Watch(limits=Limits(logprob=-8.0, surprise=limit))
        signs = [sign for part in parts if (sign := watch.feed(Said(logprobs=tuple(part))))]
        first = (signs[0].reason, signs[0].clean_tokens, signs[0].measured) if signs else None
        return first, watch.depths, watch.tokens

    rest, parts = list(logprobs), []
    for size in sizes:
        parts.append(rest[:size])
        rest = rest[size:]
    assert seen([*parts, rest]) == seen([logprobs]) == seen([[logprob] for logprob in logprobs])


def test_the_mean_counts_only_tokens_that_tell() -> None:
    """Events without log-probabilities are none of its window, and are counted in what stands before it."""
    watch = Watch(limits=Limits(surprise=3.0))
    for _ in range(200):
        assert watch.feed(Said(text="word, ")) is None or watch.looped
    signs = [sign for _ in range(64) if (sign := watch.feed(Said(logprobs=(-5.0,))))]
    assert [(sign.reason, sign.clean_tokens) for sign in signs] == [("surprise", 200)]
    assert watch.depths == one(-5.0, 5.0)


def test_calibrated_thresholds_alarm_on_fewer_than_one_in_a_hundred_others() -> None:
    """On replies that no threshold was chosen on; made-up ones, hotter ones with more improbable tokens."""
    chance = Random(7)  # noqa: S311 - made-up replies
    depths = {t: [drawn(chance, t) for _ in range(2000)] for t in (0.0, 0.7, 1.0)}
    found = calibration.calibrate("m", {t: values[:1000] for t, values in depths.items()})
    assert [row.temperature for row in found.thresholds] == [0.0, 0.7, 1.0]
    for row in found.thresholds:
        assert row.surprise is not None
        fresh = depths[row.temperature][1000:]
        beyond = [each.logprob < row.logprob or each.surprise > row.surprise for each in fresh]
        assert sum(beyond) < 0.01 * len(fresh)
        assert row.alarms < 0.01 * row.replies
    assert found.at(0.5) == Limits(logprob=found.thresholds[1].logprob, surprise=found.thresholds[1].surprise)
    assert found.at(1.5) == Thresholds().at(1.5) == Limits(logprob=-11.5, surprise=None)
    assert found.lacking == ""


def drawn(chance: Random, temperature: float) -> Depths:
    """Draw a reply; the two numbers hang together."""
    both = chance.expovariate(1)
    deep = both + chance.expovariate(1 / (2 + 3 * temperature))
    return one(-deep, 0.3 * both + chance.uniform(0.1, 0.8))


LAWS: dict[str, tuple[Callable[[Random], tuple[float, float]], Callable[[float, float], float]]] = {
    "independent": (lambda chance: (chance.random(), chance.random()), lambda a, b: 1 - (1 - a) * (1 - b)),
    "one number": (lambda chance: (both := chance.random(), both), max),
    "never both": (lambda chance: (both := chance.random(), 1 - both), lambda a, b: min(1.0, a + b)),
}
"""Laws by which the two numbers of a reply hang together, both even from 0 to 1, and the rate beyond parts of them."""


@pytest.mark.parametrize("law", LAWS)
def test_both_alarms_together_stay_below_the_most(law: str) -> None:
    """Calibrated again and again on drawn replies, the true rate of both follows the law of the cuts, and is above 1 % in 5 % at most."""
    draw, rate = LAWS[law]
    chance, total, times = Random(law), 920, 160  # noqa: S311 - made-up replies
    rates = []
    for _ in range(times):
        pairs = [draw(chance) for _ in range(total)]
        (row,) = calibration.calibrate("m", {1.0: [one(-2 - a, 2 + b) for a, b in pairs]}).thresholds
        assert row.surprise is not None
        # The part beyond each threshold, of numbers that are even from 2 to 3.
        rates.append(rate(max(0.0, 3 + row.logprob), max(0.0, 3 - row.surprise)))
    missed = sum(each >= calibration.MOST_FALSE for each in rates)
    assert missed <= binom.ppf(0.999, times, 1 - calibration.CONFIDENCE)
    wanted, cut = calibration.cuts(total) / (total + 1), calibration.cuts(total)
    # The mean of Beta(k, n - k + 1), within four standard errors; rounding to 4 digits takes 2e-4 at the most.
    error = math.sqrt(wanted * (1 - wanted) / (total + 2) / times)
    assert cut == 5
    assert wanted - 4 * error - 2e-4 <= mean(rates) <= wanted + 4 * error


def test_too_few_replies_give_no_threshold() -> None:
    """298 without an alarm do not show a rate below 1 % with 95 % confidence, 299 do, and 473 where two may lie beyond."""
    assert (calibration.wanted(), calibration.wanted(2)) == (299, 473)
    for total, cut in ((298, 0), (299, 1), (472, 1), (473, 2)):
        assert calibration.cuts(total) == cut
    assert calibration.calibrate("m", {0.0: [one(-1.5, 2.0)] * 298}).thresholds == ()


def test_the_first_alarm_is_set_before_that_of_the_mean() -> None:
    """Between 299 and 472 replies the mean has no limit, and that is said; from 473 on it has one, cut from what was left."""
    replies = [one(-12.0, 5.0), one(-10.0, 4.0), *[one(-1.5, 2.0)] * 471]
    alone, both = calibration.calibrate("m", {0.7: replies[:472], 1.0: replies}).thresholds
    assert (alone.logprob, alone.surprise) == (-12.0, None)
    assert (both.logprob, both.surprise, both.alarms) == (-12.0, 4.0, 1)
    # Of five cuts the first and the last are made for improbable tokens.
    (five,) = calibration.calibrate("m", {1.0: [one(-2 - n, 90 - n) for n in range(920)]}).thresholds
    assert (five.logprob, five.surprise, five.alarms) == (-920.0, 88.0, 3)
    assert Thresholds(thresholds=(alone, both)).lacking == "at temperature 0.7"
    assert Thresholds(thresholds=(alone,)).lacking == Thresholds().lacking == "at any temperature"


def test_replies_shorter_than_the_window_set_no_limit_of_the_mean() -> None:
    """A limit of 0 would stop every longer reply."""
    (row,) = calibration.calibrate("m", {1.0: [one(-9.0)] * 900}).thresholds
    assert (row.logprob, row.surprise) == (-9.0, None)


def test_thresholds_are_rounded_away_from_the_replies() -> None:
    """What the file says is what was counted: the replies that set a threshold do not trip it."""
    (row,) = calibration.calibrate("m", {1.0: [one(-9.12344, 3.12346)] * 900}).thresholds
    assert (row.logprob, row.surprise, row.alarms) == (-9.1235, 3.1235, 0)


def test_replies_without_numbers_can_be_written_down() -> None:
    """A threshold at the lowest that there is: JSON has no word for infinity."""
    depth = Depth()
    for _ in range(3):
        depth.feed(math.nan)
    (row,) = calibration.calibrate("m", {1.0: [one(depth.depth, 32.0)] * 900}).thresholds
    assert row.logprob == LOWEST
    assert json_of(Thresholds(thresholds=(row,)))


def test_a_reply_that_loops_by_itself_is_no_healthy_one() -> None:
    """It has no depths, also where improbable tokens raised the alarm first, and is counted beside the row."""
    watch = Watch(limits=Limits())
    signs = [watch.feed(Said(text="on and on ", logprobs=(-13.0,))) for _ in range(60)]
    assert [sign.reason for sign in signs if sign] == ["improbable", "loop"]
    assert watch.healthy is None
    row = calibration.calibrate("m", {0.0: [one(-1.5)] * 400}, {0.0: 7}).thresholds[0]
    assert (row.loops, row.replies, row.alarms, row.low) == (7, 400, 0, 0.0)
    assert 0 < row.high < 0.01


@given(st.integers(1, 400), st.data())
def test_the_interval_of_a_rate_is_the_binomials(total: int, data: st.DataObject) -> None:
    """At its ends as many alarms or more, and as many or fewer, come with 2.5 %."""
    alarms = data.draw(st.integers(0, total))
    low, high = calibration.rate(alarms, total)
    assert low <= alarms / total <= high
    assert alarms == 0 or binom.sf(alarms - 1, total, low) == pytest.approx(0.025)
    assert alarms == total or binom.cdf(alarms, total, high) == pytest.approx(0.025)


def json_of(found: Thresholds) -> str:
    """Return what `--calibrate` writes."""
    return edge.to_json(edge.plain(found))


def test_the_file_is_as_it_is_kept() -> None:
    """Made of the same replies: two rows, of which one had too few for the mean."""
    chance = Random(11)  # noqa: S311 - made-up replies
    depths = {0.0: [drawn(chance, 0.0) for _ in range(400)], 1.0: [drawn(chance, 1.0) for _ in range(1000)]}
    found = calibration.calibrate("m", depths, {0.0: 3})
    assert json_of(found) == (FILES / "both.json").read_text(encoding="utf-8")
    assert edge.read(FILES / "both.json", Thresholds) == found


def test_a_file_from_before_the_mean_still_loads() -> None:
    """Its rows hold, and the mean is watched nowhere."""
    found = edge.read(FILES / "before.json", Thresholds)
    assert found.at(0.7) == Limits(logprob=-9.42, surprise=None)
    assert found.lacking == "at any temperature"


def test_a_surprise_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """With what was wanted."""
    path = tmp_path / "thresholds.json"
    kept = (FILES / "before.json").read_text(encoding="utf-8")
    path.write_text(kept.replace('"loops"', '"surprise": -3.5, "loops"'), encoding="utf-8")
    with pytest.raises(FileFault, match=r"the surprise is -3\.5 nats, wanted more than 0"):
        edge.read(path, Thresholds)
