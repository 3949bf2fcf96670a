"""Watermark: what a node's memory asks for while ranks load: nothing, a flush of its page cache, or a stop. Pure.

Samples come from /proc/meminfo, bytes and seconds of ours (a node wedges in real time, whatever a practice line's pace).
Nothing here was measured by us on a GB10.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sparkctl.units import GIB, KIB, gib

Mode = Literal["enforce", "observe"]
Ask = Literal["nothing", "flush", "trip"]

SAMPLE_S = 0.25
"""Pause between samples. Memory fell by 13 GiB within 2 s once weights were loaded (vllm-project/vllm#46307, reported): that is
1.6 GiB a sample, so a floor of 4 GiB is seen with more than 2 GiB left. One such read costs a node next to nothing."""

SILENT_WARN_S = 10.0
"""Seconds without a sample that are told. Ours: forty samples missed."""

SILENT_TRIP_S = 60.0
"""Seconds without a sample after which a node counts as wedged. Ours: a GB10 without memory answers ping and gives no SSH banner
(eugr/spark-vllm-docker#257, reported); one that only swaps or compiles answers within some seconds."""

FLUSH_FREE = 4 * GIB
"""MemFree below which page cache is dropped: CUDA can only take what is free. As the memfree flusher of
tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark does it (reported)."""

FLUSH_GAIN = 2 * GIB
"""What a flush must at least be able to give back, MemAvailable less MemFree (the same flusher, reported)."""

FLUSH_PAUSE_S = 2.0
"""Between two flushes of a node (the same flusher, reported): a flush slows the reading that fills the cache."""

MOVED = GIB / 4
"""Change of free or anonymous memory that shows work, within MOVED_S. Ours: a loader at 10 MB/s reaches it, and the
slowest public one (over NFS, 86 GB in 18 min, tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark) makes eight times as much."""

MOVED_S = 30.0
"""Window of that change: a slow drift of an idle node never adds up to work. Ours."""

KEPT = 10
"""Samples that a trip shows."""

_ROW = re.compile(r"^(MemTotal|MemFree|MemAvailable|AnonPages):\s+(\d{1,15}) kB$", re.ASCII)
_WANTED = ("MemTotal", "MemFree", "MemAvailable", "AnonPages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Memory of a node at one moment: bytes, and monotonic seconds of ours."""

    at_s: float
    free: int
    available: int
    anonymous: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to act: the floor of MemAvailable in bytes with its origin, and whether to stop ranks or only to tell."""

    floor: float
    origin: str
    mode: Mode = "enforce"
    silent_warn_s: float = SILENT_WARN_S
    silent_trip_s: float = SILENT_TRIP_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """Why the guard stopped every rank, or would have: the node, what was measured and wanted, its last samples as text.

    `left` are the nodes on which the stop was not confirmed. A trip for `silence` says nothing of what was booted.
    """

    node: str
    why: Literal["memory", "silence"]
    said: str
    hint: str
    samples: tuple[str, ...]
    left: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """What is known of a silent node: its last samples, its last line when that was not readable, whether all are silent."""

    samples: tuple[Sample, ...]
    said: str
    everywhere: bool


def row(line: str) -> tuple[str, int] | None:
    """Read one row of /proc/meminfo that counts here, in bytes; its kB are KiB."""
    found = _ROW.match(line.rstrip())
    return (found[1], int(found[2]) * KIB) if found else None


def sample(rows: Mapping[str, int], at_s: float) -> Sample | None:
    """Return the sample that the rows amount to; None while some are missing or when they contradict each other."""
    if any(name not in rows for name in _WANTED):
        return None
    total, free, available, anonymous = (rows[name] for name in _WANTED)
    if max(free, available, anonymous) > total:
        return None
    return Sample(at_s=at_s, free=free, available=available, anonymous=anonymous)


def judge(now: Sample, limits: Limits, flushed_s: float | None) -> Ask:
    """Say what a sample asks for; `flushed_s` is when this node was flushed last."""
    if now.available < limits.floor:
        return "trip"
    short = now.free < FLUSH_FREE and now.available - now.free >= FLUSH_GAIN
    rested = flushed_s is None or now.at_s - flushed_s >= FLUSH_PAUSE_S
    return "flush" if short and rested else "nothing"


def has_moved(reference: Sample, now: Sample) -> bool:
    """Whether memory changed by so much that something works on the node."""
    return abs(now.free - reference.free) >= MOVED or abs(now.anonymous - reference.anonymous) >= MOVED


def starved(node: str, limits: Limits, samples: Sequence[Sample]) -> Trip:
    """Return the trip of a node below the floor; the last of `samples` is the one that fell below it."""
    return Trip(
        node=node,
        why="memory",
        said=f"MemAvailable fell to {gib(samples[-1].available)}; wanted at least {gib(limits.floor)} ({limits.origin})",
        hint="leave more memory free: lower memory.utilisation or memory.kv_cache_gib, or stop what else runs there; to learn what this "
        "configuration needs set memory.guard to observe once",
        samples=_told(samples),
    )


def silent(node: str, seconds: float, limits: Limits, track: Silent) -> Trip:
    """Return the trip of a node that gave no sample for so long."""
    wanted = f"no memory sample for {seconds:.0f} s, wanted one at least every {limits.silent_trip_s:g} s"
    last = f"; it last said {track.said[:80]!r}" if track.said else ""
    if track.everywhere:
        said = f"{wanted}, and none from any other node: the network between here and the line may be down"
        hint = "check the management network, then look at what is left: sparkctl status"
    else:
        said = f"{wanted}: it may be wedged{last}"
        hint = "a GB10 that ran out of memory can answer ping and refuse every login: wait some minutes, then cut its power"
    return Trip(node=node, why="silence", said=said, hint=hint, samples=_told(track.samples))


def _told(samples: Sequence[Sample]) -> tuple[str, ...]:
    """Show the last samples, each with its time before the last one."""
    kept = tuple(samples)[-KEPT:]
    return tuple(
        f"{one.at_s - kept[-1].at_s:+.2f} s: MemFree {gib(one.free)}, MemAvailable {gib(one.available)}, "
        f"AnonPages {gib(one.anonymous)}"
        for one in kept
    )
