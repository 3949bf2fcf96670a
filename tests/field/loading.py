"""Judges of what is seen while a line loads: logs, a rank's silence, a node's memory. A judge translates and never judges."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from field_catalogue import Outcome

from bootcheck.floors import Floors
from launcher import diagnosis, ending, progress, watermark
from launcher.ending import End
from launcher.progress import RankProgress
from launcher.track import Track
from launcher.watermark import Limits
from sparkctl.units import GIB, gib

Given = Mapping[str, Any]

_TIME = re.compile(r"\b(\d\d):(\d\d):(\d\d)\b")


def judge_log(text: str, _: Given) -> list[Outcome]:
    """Take the text as an engine's log, a kernel's or a journal: every trouble that is known, the most telling first."""
    return [
        Outcome(by=one.name, verdict=one.kind, said=one.said, hint=one.hint, figures=one.figures)
        for one in diagnosis.explain_all(text.splitlines())
    ]


def judge_ended(text: str, given: Given) -> list[Outcome]:
    """Take the text as the journal of a node whose rank ended with exit code `code`; that rank's log is empty."""
    names = {f"spark-a{rank}": f"rank {rank}" for rank in range(4)}
    end = End(node="spark-a1", name=names["spark-a1"], code=given["code"])
    cause = ending.find((end,), names, {}, {end.node: text.splitlines()})
    return [Outcome(by="ending", verdict="fault", said=cause.said, hint=cause.hint)]


def _seconds(text: str) -> int | None:
    found = _TIME.search(text)
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]) if found else None


def judge_silence(text: str, given: Given) -> list[Outcome]:
    """Take the text as one rank's log, each line at the time it names, and `then_s` more seconds without a word.

    Of the node's memory there is no sample, so that only the log speaks for the rank.
    """
    began_s = next(at for told in text.splitlines() if (at := _seconds(told)) is not None)
    now_s: float = began_s
    rank = RankProgress(node="spark-a1", name="rank 1", since_s=now_s, spoke_s=now_s)
    for told in text.splitlines():
        now_s = _seconds(told) or now_s
        found = progress.stuck((rank,), now_s, {}, {})
        if found:
            break
        rank = progress.take(rank, told, now_s)
    else:
        found = progress.stuck((rank,), now_s + given["then_s"], {}, {})
    if found is None:
        waited = f"{rank.stage}, {now_s + given['then_s'] - began_s:.0f} s in all: nobody is named"
        return [Outcome(by="progress", verdict="waits", said=waited)]
    return [Outcome(by="progress", verdict="stuck", said=found.said, hint=found.hint)]


class _Point(NamedTuple):
    """Memory at one moment; GiB."""

    at_s: float
    free: float
    available: float


_SAMPLES = (
    re.compile(r"^=== (?P<time>[\d:]+) MemFree:(?P<free>[\d.]+) MemAvailable:(?P<available>[\d.]+)"),
    re.compile(r"^(?P<time>[\d:]+)\t(?P<available>[\d.]+)\t"),
    re.compile(r"^(?P<time>[\d:]+) .*minAvail~(?P<available>\d+)GiB"),
)
_FREE_M = re.compile(r"^Mem: +(?:\d+ +){2}(\d+) +\d+ +\d+ +(\d+)$", re.MULTILINE)


def _points(text: str) -> list[_Point]:
    """Every sample of the text; where it tells what is available alone, nothing is taken to be cached."""
    rows = (row for told in text.splitlines() for pattern in _SAMPLES if (row := pattern.match(told)))
    found = []
    for row in rows:
        cells = row.groupdict()
        available = float(cells["available"])
        at_s = _seconds(cells["time"]) or 0
        found.append(_Point(at_s=at_s, free=float(cells.get("free", available)), available=available))
    told = _FREE_M.findall(text)
    found += [_Point(at_s=0, free=int(free) / 1024, available=int(rest) / 1024) for free, rest in told]
    return found


def _fall(points: list[_Point]) -> list[_Point]:
    """The line through the points at the guard's own pace, carried on to nothing at its steepest pace.

    A node that ran out of memory prints no further sample.
    """
    steepest = max(
        (left.available - right.available) / (right.at_s - left.at_s) for left, right in pairwise(points)
    )
    end = _Point(at_s=points[-1].at_s + points[-1].available / steepest, free=0, available=0)
    found = []
    for left, right in pairwise([*points, end]):
        for step in range(int((right.at_s - left.at_s) / watermark.SAMPLE_S)):
            share = step * watermark.SAMPLE_S / (right.at_s - left.at_s)
            found.append(_Point(*(old + (new - old) * share for old, new in zip(left, right, strict=True))))
    return found


def judge_guard(text: str, given: Given) -> list[Outcome]:
    """Take the text as samples of a node's memory, as rows of /proc/meminfo; with `fall` the last fall is carried on."""
    floor = Floors().guard_available_gib
    limits = Limits(floor=floor.value * GIB, origin=floor.origin)
    points = _points(text)
    track, flushed = Track(began_s=points[0].at_s), []
    for point in _fall(points) if given.get("fall") else points:
        asked = [track.take(row, point.at_s, point.at_s, limits) for row in _meminfo(point)]
        if "trip" in asked:
            trip = watermark.starved("spark-a1", limits, track.samples)
            said = f"{trip.said}; the last {len(trip.samples)} samples are shown"
            return [Outcome(by="guard", verdict="trip", said=said, hint=trip.hint)]
        if "flush" in asked:
            flushed.append(gib(track.samples[-1].free))
            track.flushed(point.at_s, done=True)
    said = f"lowest {gib(track.lowest or 0)} MemAvailable"
    if flushed:
        return [Outcome(by="guard", verdict="flush", said=f"{said}; flushed at {', '.join(flushed)} MemFree")]
    return [Outcome(by="guard", verdict="nothing", said=said)]


def _meminfo(point: _Point) -> list[str]:
    told = {"MemTotal": 121.69, "MemFree": point.free, "MemAvailable": point.available, "AnonPages": 1.0}
    return [f"{name + ':':<15}{int(size * 1024**2):>9} kB" for name, size in told.items()]


JUDGES = {"log": judge_log, "ended": judge_ended, "silence": judge_silence, "guard": judge_guard}
