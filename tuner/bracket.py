"""Brackets: how the line stood before and after each cell, and whether it was the same line. Pure.

A cell between two brackets that differ measured two machines, and its mean is that of neither. Seen are the time of a decode
step, read from one question that is asked alone every time (the sentinel), and what the nodes show while it decodes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from launcher.vitals import Vitals
from tuner.counters import Counters, growth

MOST_STEP_CHANGE = 1.2
"""Ratio of two sentinels' step times, either way. Ours: half-way (in the logarithm) to the 63 and 94 ms of the fast and the
hidden slow state (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1, reported), and far above the few per cent by which single
requests differ."""

MOST_CLOCK_CHANGE = 0.10
"""Share by which a node's SM clock may change from one sentinel to the next. Ours: a locked clock moves by under 1 % (2177 to 2190
MHz, reported on the public ladder of bot-lab-21/DeepSeek-V4.1-Flash-EXL3-DGX-Spark), a latched one falls by half and more."""

MOST_HELD_S = 1.0
"""Seconds in a cell for which heat or the power supply may hold a clock down. Ours: shorter than any cell."""

MOST_SWAPPED_BYTES = 256 * 1024**2
"""What a node may swap out during a cell. Ours: page faults of one node are most spikes of a decode step
(tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark, boot notes, reported)."""

_HELD = frozenset(
    {"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """The line between two cells. `step_s` is None where no sentinel was sent or it had no rate; seconds are the line's.

    The server's counters are those before and after the sentinel, None where it shows none; `nodes` are empty for an endpoint
    that is no line of ours.
    """

    at_s: float
    step_s: float | None = None
    before: Counters | None = None
    after: Counters | None = None
    nodes: tuple[Vitals, ...] = ()


def grown(brackets: Sequence[Bracket], place: int) -> Counters | None:
    """Return by how much the server's counters grew over the cell at that place; None where it shows none, or was not asked."""
    if place + 1 >= len(brackets):
        return None
    before, after = brackets[place].after, brackets[place + 1].before
    return growth(before, after) if before and after else None


def changes(brackets: Sequence[Bracket], cells: Sequence[str]) -> Iterator[str]:
    """Yield why the line of one bracket is not that of the one before, each naming the cell between them.

    Only the first change of a kind and node is told: what follows it was measured on the other machine.
    """
    told: set[str] = set()
    for cell, (before, after) in zip(cells, pairwise(brackets), strict=False):
        for key, said in _differences(before, after):
            if key not in told:
                told.add(key)
                yield f"{cell}: {said}"


def _differences(before: Bracket, after: Bracket) -> Iterator[tuple[str, str]]:
    if before.step_s and after.step_s and _apart(before.step_s, after.step_s):
        took = f"{before.step_s * 1000:.1f} ms a step before and {after.step_s * 1000:.1f} after it"
        wanted = f"within a factor of {MOST_STEP_CHANGE:g}"
        yield "step", f"the same question took {took}, wanted {wanted}: the line changed its state"
    old = {one.node: one for one in before.nodes}
    for new in after.nodes:
        if new.node in old:
            yield from _of_node(old[new.node], new)


def _apart(first: float, second: float) -> bool:
    return max(first, second) / min(first, second) > MOST_STEP_CHANGE


def _of_node(old: Vitals, new: Vitals) -> Iterator[tuple[str, str]]:
    was, now = (one.gpu.sm_mhz if one.gpu else None for one in (old, new))
    if was and now and abs(now / was - 1) > MOST_CLOCK_CHANGE:
        yield (
            f"clock {new.node}",
            f"the clock of {new.node} went from {was:.0f} to {now:.0f} MHz, wanted within {MOST_CLOCK_CHANGE:.0%}",
        )
    reasons = (new.throttle.reasons if new.throttle else None) or ()
    if held := sorted(_HELD.intersection(reasons)):
        yield f"held {new.node}", f"the clock of {new.node} is held down: {', '.join(held)}; wanted free"
    brake = [one.throttle.hw_power_brake_us if one.throttle else None for one in (old, new)]
    for what, grew in (("heat", _grew(old.heat_us, new.heat_us)), ("the power supply", _grew(*brake))):
        if grew > MOST_HELD_S * 1e6:
            yield (
                f"{what} {new.node}",
                f"{what} held the clock of {new.node} down for {grew / 1e6:.1f} s, wanted at most {MOST_HELD_S:g}",
            )
    if (swapped := _grew(old.swapped_bytes, new.swapped_bytes)) > MOST_SWAPPED_BYTES:
        yield (
            f"swap {new.node}",
            f"{new.node} swapped out {swapped / 1024**2:.0f} MiB, wanted a line that stays in memory",
        )


def _grew(was: int | None, now: int | None) -> int:
    """Return the growth of a counter; one that cannot be read on either side did not show any."""
    return 0 if was is None or now is None else now - was
