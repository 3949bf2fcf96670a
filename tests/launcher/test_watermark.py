"""Watermark and track: samples of a node's memory to nothing, a flush, or a stop."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher import watermark
from launcher.track import Track
from launcher.watermark import Ask, Limits, Sample, Silent
from sparkctl.units import GIB

RAW = Path(__file__).parents[1] / "field" / "raw"
LIMITS = Limits(floor=4 * GIB, origin="test")
_MEMSTAT = re.compile(r"^=== (\d+):(\d+):(\d+) MemFree:([\d.]+) MemAvailable:([\d.]+) .*AnonPages:([\d.]+)")


def sample(free: float, available: float, *, anonymous: float = 3.0, at_s: float = 0.0) -> Sample:
    """Return a sample; sizes in GiB."""
    sizes = [int(size * GIB) for size in (free, available, anonymous)]
    return Sample(at_s=at_s, free=sizes[0], available=sizes[1], anonymous=sizes[2])


def meminfo(free: float, available: float, anonymous: float = 3.0) -> list[str]:
    """Return the lines of /proc/meminfo; sizes in GiB."""
    rows = {
        "MemTotal": 121.69,
        "MemFree": free,
        "MemAvailable": available,
        "Cached": 1,
        "AnonPages": anonymous,
    }
    return [f"{name + ':':<15}{int(size * 1024**2):>9} kB" for name, size in rows.items()]


def fed(track: Track, at_s: float, lines: list[str], limits: Limits = LIMITS) -> list[Ask]:
    """Return what each line asks for, the quiet ones left out."""
    asked = [track.take(line, at_s, at_s * 10, limits) for line in lines]
    return [ask for ask in asked if ask != "nothing"]


def collapse() -> list[tuple[float, float]]:
    """Return the public fall as seconds and GiB, carried on at its steepest pace, since the node then answered no more."""
    rows = [
        line.split("\t") for line in (RAW / "05-memavailable-collapse.tsv.txt").read_text().splitlines()[1:]
    ]
    seconds = [
        sum(int(part) * 60**power for power, part in zip((2, 1, 0), row[0].split(":"), strict=True))
        for row in rows
    ]
    points = [(at - seconds[0], float(row[1])) for at, row in zip(seconds, rows, strict=True)]
    last_s, last = points[-1]
    return [*points, (last_s + last / 6.5, 0.0)]


def at(points: list[tuple[float, float]], seconds: float) -> float:
    """Return the height of a broken line."""
    left, right = next(pair for pair in pairwise(points) if pair[0][0] <= seconds <= pair[1][0])
    return left[1] + (right[1] - left[1]) * (seconds - left[0]) / (right[0] - left[0])


@pytest.mark.parametrize("offset", [0.0, 0.05, 0.1, 0.15, 0.2])
def test_sampling_beats_the_public_collapse(offset: float) -> None:
    """13 GiB within 2 s: whenever the samples fall, ranks are stopped with 2 GiB left for the node to obey."""
    track, points = Track(began_s=0.0), collapse()
    for step in range(1000):
        seconds = offset + step * watermark.SAMPLE_S
        left = at(points, seconds)
        if fed(track, seconds, meminfo(min(left, 1.0), left)) == ["trip"]:
            assert 2 < left < 4
            return
    pytest.fail("never tripped")


def test_a_good_boot_that_dips_to_5_gib_goes_on() -> None:
    """MemAvailable went down to 5 GiB for minutes in a boot that then served."""
    text = (RAW / "61-boot-status-lines.txt").read_text()
    lows = [float(low) for low in re.findall(r"minAvail~(\d+)GiB", text)]
    assert min(lows) == 5
    assert [watermark.judge(sample(low, low), LIMITS, None) for low in lows] == ["nothing"] * len(lows)


def test_the_public_load_is_flushed_where_free_memory_is_pinned() -> None:
    """Page cache held MemFree below 1 GiB while 16 to 22 were available; before and after there is nothing to give back."""
    found = []
    for line in (RAW / "07-memstat-during-load.txt").read_text().splitlines():
        if row := _MEMSTAT.match(line):
            free, available, anonymous = (float(row[group]) for group in (4, 5, 6))
            found.append((free, watermark.judge(sample(free, available, anonymous=anonymous), LIMITS, None)))
    assert [ask for free, ask in found if free < 4] == ["flush"] * 3
    assert [ask for free, ask in found if free > 4] == ["nothing"] * 5


@pytest.mark.parametrize(
    ("free", "available", "flushed_s", "ask"),
    [
        (3.9, 3.9, None, "trip"),
        (0.5, 4.0, None, "flush"),
        (3.9, 5.9, None, "flush"),
        (3.9, 5.8, None, "nothing"),
        (4.0, 20.0, None, "nothing"),
        (1.0, 20.0, -1.9, "nothing"),
        (1.0, 20.0, -2.0, "flush"),
        (0.5, 3.99, -0.1, "trip"),
    ],
)
def test_the_rules_at_their_edges(free: float, available: float, flushed_s: float | None, ask: Ask) -> None:
    """The floor comes before everything; a flush needs little free, enough to give back, and a pause."""
    assert watermark.judge(sample(free, available), LIMITS, flushed_s) == ask


def test_a_flush_is_no_sign_of_work() -> None:
    """What drop_caches gives back is our own doing; what the loader then reads again counts."""
    track = Track(began_s=0.0)
    assert fed(track, 1.0, meminfo(1.0, 20.0)) == ["flush"]
    assert fed(track, 1.5, meminfo(19.0, 20.0)) == []
    assert track.moved_s == 10.0
    fed(track, 3.0, meminfo(18.0, 20.0))
    assert track.moved_s == 30.0


def test_one_flush_at_a_time() -> None:
    """A flush may take longer than the pause: it is not asked for again meanwhile, and rests for a pause afterwards."""
    track = Track(began_s=0.0)
    asked = [fed(track, at_s, meminfo(1.0, 20.0)) for at_s in (1.0, 4.0, 8.0)]
    assert asked == [["flush"], [], []]
    track.flushed(9.0, done=True)
    assert (track.flushes, track.is_flushing) == (1, False)
    assert [fed(track, at_s, meminfo(1.0, 20.0)) for at_s in (10.0, 11.0)] == [[], ["flush"]]
    track.flushed(12.0, done=False)
    assert track.flushes == 1


def test_what_is_taken_during_a_flush_is_work() -> None:
    """A long flush hides no loader: what it gives back does not count, what somebody takes meanwhile does."""
    track = Track(began_s=0.0)
    fed(track, 1.0, meminfo(1.0, 20.0))
    fed(track, 2.0, meminfo(3.0, 20.0))
    fed(track, 3.0, meminfo(6.0, 20.0))
    assert track.moved_s == 10.0
    fed(track, 4.0, meminfo(5.0, 20.0))
    assert track.moved_s == 40.0


def test_work_is_a_change_within_half_a_minute() -> None:
    """A quick change counts, of free or of anonymous memory; a drift of an idle node never adds up."""
    track = Track(began_s=0.0)
    for minute in range(20):
        fed(track, minute * 60.0, meminfo(20.0 - minute * 0.2, 20.0))
    assert track.moved_s == 0.0
    fed(track, 1141.0, meminfo(16.2, 20.0, 3.3))
    assert track.moved_s == 11410.0


def test_a_node_that_may_not_flush_is_not_asked_again() -> None:
    """A refused sudo stays refused."""
    track = Track(began_s=0.0)
    track.may_flush = False
    assert fed(track, 1.0, meminfo(1.0, 20.0)) == []


def test_the_lowest_is_kept_and_silence_counts_from_the_last_sample() -> None:
    """Lines that lead to no sample do not end a silence; the last of them is kept for the message."""
    track = Track(began_s=0.0)
    assert track.silent_s(3.0) == 3.0
    for at_s, available in ((1.0, 30.0), (2.0, 9.5), (3.0, 12.0)):
        fed(track, at_s, meminfo(8.0, available))
    assert track.lowest is not None
    assert track.lowest / GIB == pytest.approx(9.5, abs=0.01)
    fed(track, 5.0, ["cat: /proc/meminfo: Input/output error"])
    assert track.silent_s(7.0) == 4.0
    assert track.said == "cat: /proc/meminfo: Input/output error"


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["MemFree:  1000 kB", "MemAvailable:  1000 kB", "AnonPages:  1 kB"],
        ["MemTotal:  1000 kB", "MemFree:  1000 kB", "MemAvailable:  2000 kB", "AnonPages:  1 kB"],
        ["MemTotal:  1000 kB", "MemFree:  10 kB", "MemAvailable:  5", "AnonPages:  1 kB"],
        ["MemTotal:  1000 kB", "MemFree:  -10 kB", "MemAvailable:  5 kB", "AnonPages:  1 kB"],
        ["Speicher:  1000 kB"],
    ],
)
def test_what_is_no_sample_never_trips(lines: list[str]) -> None:
    """Truncated, absurd or other text is no memory of nothing."""
    track = Track(began_s=0.0)
    assert fed(track, 1.0, lines) == []
    assert not track.samples


@given(st.lists(st.text(max_size=40), max_size=30))
def test_no_text_trips(lines: list[str]) -> None:
    """Only whole samples are judged."""
    assert "trip" not in fed(Track(began_s=0.0), 1.0, lines)


def test_a_trip_shows_the_last_ten_samples() -> None:
    """What was measured and wanted, with the origin of the floor, and how it came to that."""
    samples = tuple(sample(1.0, 20.0 - at, at_s=float(at)) for at in range(18))
    trip = watermark.starved("spark-a2", LIMITS, samples)
    assert (trip.node, trip.why) == ("spark-a2", "memory")
    assert trip.said == "MemAvailable fell to 3.0 GiB; wanted at least 4.0 GiB (test)"
    assert len(trip.samples) == 10
    assert trip.samples[0].startswith("-9.00 s: MemFree 1.0 GiB, MemAvailable 12.0 GiB")
    assert trip.samples[-1].startswith("+0.00 s: MemFree 1.0 GiB, MemAvailable 3.0 GiB, AnonPages 3.0 GiB")
    assert "memory.guard to observe" in trip.hint


def test_a_silent_node_is_told_apart_from_a_dead_network() -> None:
    """One silent node may be wedged; when all are silent it is rather the way to them."""
    alone = watermark.silent("spark-a2", 61.0, LIMITS, Silent(samples=(), said="cat: no", everywhere=False))
    assert alone.said == (
        "no memory sample for 61 s, wanted one at least every 60 s: it may be wedged; it last said 'cat: no'"
    )
    assert "cut its power" in alone.hint
    everywhere = watermark.silent("spark-a2", 61.0, LIMITS, Silent(samples=(), said="", everywhere=True))
    assert "none from any other node" in everywhere.said
    assert "management network" in everywhere.hint
