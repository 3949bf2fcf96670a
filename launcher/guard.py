"""Guard: watches every node's memory from before the launch until ready, and stops all ranks before a node wedges. I/O.

One command a node prints /proc/meminfo several times a second over a kept connection; `launcher/watermark.py` decides. A sample
below the floor stops every rank on every node at once, before anything else is done. Warnings are handed to `report` by `tell`
and at the end, in the thread that uses the guard; everything else runs in threads of its own that end with it.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from launcher import ending, watermark
from launcher.command import RankCommand
from launcher.track import Track
from launcher.watermark import Limits, Silent, Trip
from sparkctl import unreachable
from sparkctl.clock import Clock
from sparkctl.following import Following
from sparkctl.line import Line
from sparkctl.shell import Shell

Report = Callable[[str], None]

SAMPLES = ("sh", "-c", f"while cat /proc/meminfo; do sleep {watermark.SAMPLE_S:g}; done")
"""What prints a node's memory for as long as it is followed."""

FLUSH = ("sudo", "-n", "sh", "-c", "echo 1 > /proc/sys/vm/drop_caches")
"""Drops clean page cache only. Without `sync`, which would wait for a disk that is busy with the weights."""

_FLUSH_HINT = 'add a sudo rule without password for: sh -c "echo 1 > /proc/sys/vm/drop_caches"'

_FIRST_S = 20.0
"""For a node's first sample; longer than one login may take. Ours."""

_TICK_S = 0.5
_AGAIN_S = 2.0
"""Between attempts to follow a node again, and between stops of ranks that a launch under way starts late. Ours."""

_ANSWERS_S = 2.0
"""Without a sample for so long a node is not asked to stop its rank once more: that would hold the others up. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a node cannot be guarded; a line without guard had better not be launched."""

    node: str
    said: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a guard saw: the lowest MemAvailable of each node (bytes), flushes by node, and where observing it would have acted."""

    lowest: Mapping[str, int]
    flushes: Mapping[str, int]
    observed: tuple[Trip, ...] = ()


class Guard:
    """Use as a context manager around launch and wait; look at `fault` first."""

    def __init__(
        self, line: Line, commands: tuple[RankCommand, ...], limits: Limits, clock: Clock, report: Report
    ) -> None:
        self.fault: Fault | None = None
        self.news = threading.Event()
        """Set when there is something to look at: a trip, or a warning to tell."""
        self._line, self._commands, self._limits, self._clock = line, commands, limits, clock
        self._report = report
        self._lock = threading.Lock()
        self._tracks = {node.name: Track(began_s=time.monotonic()) for node in line.nodes}
        self._warnings: list[str] = []
        self._observed: dict[str, Trip] = {}
        self._trip: Trip | None = None
        self._stopped = threading.Event()
        self._ending = threading.Event()
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._shell = stack.enter_context(Shell(self._line))
            self._flushing = ThreadPoolExecutor(max_workers=len(self._tracks))
            # A flush that has not begun by the end is not worth it: the line serves then, or is stopped.
            stack.callback(self._flushing.shutdown, wait=True, cancel_futures=True)
            following = self._shell.follow(dict.fromkeys(self._tracks, SAMPLES), self._take)
            stack.enter_context(following)
            self.fault = self._first(following)
            ticking = threading.Thread(target=self._tick, args=(following,), name="guard", daemon=True)
            ticking.start()
            stack.callback(ticking.join)
            stack.callback(self._ending.set)
            self._resources = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()
        self.tell()

    def tripped(self) -> Trip | None:
        """Return why every rank was stopped, once they are; None when the guard did not have to. Never set when observing."""
        if self._trip is None:
            return None
        self._stopped.wait()
        return self._trip

    def watched(self) -> Watched:
        """Return what was seen until now."""
        with self._lock:
            return Watched(
                lowest={name: one.lowest for name, one in self._tracks.items() if one.lowest is not None},
                flushes={name: one.flushes for name, one in self._tracks.items() if one.flushes},
                observed=tuple(self._observed.values()),
            )

    def moved(self) -> dict[str, float]:
        """Return when each node's memory last showed work, in the line's monotonic seconds; nodes never sampled are left out."""
        with self._lock:
            return {name: one.moved_s for name, one in self._tracks.items() if one.moved_s is not None}

    def tell(self) -> None:
        """Hand the warnings that came up to `report`."""
        with self._lock:
            warnings, self._warnings = self._warnings, []
        for text in warnings:
            self._report(text)

    def _first(self, following: Following) -> Fault | None:
        """Wait for every node's first sample; return the first node that gives none."""
        until = time.monotonic() + _FIRST_S
        waiting = set(self._tracks)
        while waiting and time.monotonic() < until:
            waiting = {name for name in waiting if not self._tracks[name].samples}
            for stream in following.streams():
                if stream.node in waiting and stream.lost:
                    said, hint = unreachable.say(stream.lost)
                    return Fault(node=stream.node, said=f"its memory cannot be guarded: {said}", hint=hint)
                if stream.node in waiting and stream.rc is not None:
                    return self._unreadable(stream.node, f"the command ended with {stream.rc}")
            self.news.wait(0.02)
        return self._unreadable(min(waiting), f"no sample within {_FIRST_S:g} s") if waiting else None

    def _unreadable(self, node: str, why: str) -> Fault:
        last = self._tracks[node].said
        seen = f", it last said {last[:80]!r}" if last else ""
        return Fault(
            node=node,
            said=f"its memory cannot be guarded: {why}{seen}",
            hint="cat /proc/meminfo must work there and show MemTotal, MemFree, MemAvailable and AnonPages",
        )

    def _take(self, name: str, line: str) -> None:
        """Take one line of a node and do what it asks for."""
        with self._lock:
            track = self._tracks[name]
            ask = track.take(line, time.monotonic(), self._clock.monotonic_s(), self._limits)
            samples = tuple(track.samples)
        match ask:
            case "trip":
                self._act(watermark.starved(name, self._limits, samples))
            case "flush":
                self._flushing.submit(self._flush, name)
            case "nothing":
                pass

    def _act(self, trip: Trip) -> None:
        """Stop every rank on every node, or only remember it; the first trip counts."""
        with self._lock:
            is_first = self._trip is None and trip.node not in self._observed
            if not is_first:
                return
            if self._limits.mode == "observe":
                self._observed[trip.node] = trip
                self._warn(f"{trip.node}: {trip.said}; the guard observes only, so nothing was stopped")
                return
            self._trip = trip
        left = tuple(self._tracks)
        try:
            left = self._stop(frozenset(self._tracks))
        finally:
            # Whoever waits for the stop is told of it, also of one that broke off.
            self._trip = replace(trip, left=left)
            self._stopped.set()
            self.news.set()

    def _stop(self, nodes: frozenset[str]) -> tuple[str, ...]:
        """Kill the rank of each of these nodes, all at once; return the nodes on which that is not certain."""
        kills = {one.node: ("docker", "kill", one.name) for one in self._commands if one.node in nodes}
        return tuple(
            one.node for one in self._shell.run_each(kills) if one.rc != 0 and not ending.is_down(one.stderr)
        )

    def _answering(self) -> frozenset[str]:
        now_s = time.monotonic()
        with self._lock:
            return frozenset(name for name, one in self._tracks.items() if one.silent_s(now_s) < _ANSWERS_S)

    def _flush(self, name: str) -> None:
        done = False
        try:
            (said,) = self._shell.run_each({name: FLUSH})
            done = said.rc == 0
            if said.rc not in {0, None}:
                why = unreachable.say(said.stderr, answered=True)[0]
                with self._lock:
                    self._tracks[name].may_flush = False
                    self._warn(f"{name}: page cache was not flushed while weights load: {why}; {_FLUSH_HINT}")
        finally:
            with self._lock:
                self._tracks[name].flushed(time.monotonic(), done=done)

    def _warn(self, text: str) -> None:
        self._warnings.append(text)
        self.news.set()

    def _tick(self, following: Following) -> None:
        """Look for silent nodes, follow lost ones again, and after a trip stop what a launch under way still starts."""
        since_s = time.monotonic()
        while not self._ending.wait(_TICK_S):
            self._look()
            if time.monotonic() - since_s >= _AGAIN_S:
                since_s = time.monotonic()
                following.resume(ended=True)
                if self._stopped.is_set():
                    self._stop(self._answering())

    def _look(self) -> None:
        now_s, limits, trips = time.monotonic(), self._limits, []
        with self._lock:
            silent_s = {name: one.silent_s(now_s) for name, one in self._tracks.items()}
            everywhere = len(silent_s) > 1 and min(silent_s.values()) >= limits.silent_warn_s
            for name, seconds in silent_s.items():
                track = self._tracks[name]
                if seconds >= limits.silent_trip_s:
                    known = Silent(samples=tuple(track.samples), said=track.said, everywhere=everywhere)
                    trips.append(watermark.silent(name, seconds, limits, known))
                elif seconds >= limits.silent_warn_s and not track.is_warned:
                    track.is_warned = True
                    self._warn(f"{name}: no memory sample for {seconds:.0f} s; the guard goes on trying")
        for trip in trips:
            self._act(trip)
