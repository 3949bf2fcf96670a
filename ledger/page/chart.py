"""Chart: scales, axes and marks as SVG text. Every mark carries the numbers that it stands for, unrounded, as data attributes.

A chart is 420 units wide, which a phone shows at four fifths and a desk at four thirds of its size. Colours are classes of the page.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import takewhile

WIDTH = 420


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From values to places along an axis, linear or by logarithm; what lies outside is drawn at the edge."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value."""
        low, high, here = (
            self._turn(one) for one in (self.low, self.high, min(max(value, self.low), self.high))
        )
        return self.start + (here - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> tuple[float, ...]:
        """Return a handful of round values within the scale."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return tuple(10.0**power for power in range(first, last + 1))
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return tuple(
            takewhile(lambda tick: tick <= self.high + step * 1e-9, (step * (first + at) for at in range(40)))
        )

    def _turn(self, value: float) -> float:
        return math.log10(value) if self.log else value


def scale(
    values: Iterable[float], start: float, end: float, *, log: bool = False, zero: bool = False
) -> Scale:
    """Return a scale that has room for all finite values, and for 0 where that is wanted."""
    told = [value for value in (*values, *((0.0,) if zero else ())) if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(told), max(told)
    if log:
        return Scale(low=low / 2, high=high * 2, start=start, end=end, log=True)
    room = (high - low or abs(high) or 1.0) * 0.08
    return Scale(low=low if zero and low == 0 else low - room, high=high + room, start=start, end=end)


def mark(kind: str, body: str, **numbers: float | str | None) -> str:
    """Return a group around a mark: its kind as class and the numbers it stands for, with them as its tip."""
    told = {name.replace("_", "-"): value for name, value in numbers.items() if value is not None}
    data = "".join(f' data-{name}="{escape(str(value))}"' for name, value in told.items())
    tip = ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else str(value) for name, value in told.items()
    )
    return f'<g class="mark {kind}"{data}><title>{escape(tip)}</title>{body}</g>'


def dot(x: float, y: float, style: str = "") -> str:
    """Return a dot."""
    return f'<circle class="dot {style}" cx="{x:.2f}" cy="{y:.2f}" r="4"/>'


def line(x1: float, y1: float, x2: float, y2: float, style: str = "") -> str:
    """Return a straight line."""
    return f'<line class="{style or "stroke"}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def bar(x: float, y: float, width: float, height: float, style: str = "") -> str:
    """Return a bar, at least a unit wide so that it is seen."""
    return f'<rect class="bar {style}" x="{x:.2f}" y="{y:.2f}" width="{max(width, 1):.2f}" height="{height:.2f}"/>'


def path(points: Sequence[tuple[float, float]], style: str) -> str:
    """Return a line through points."""
    told = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    return f'<polyline class="path {style}" points="{told}"/>'


def words(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    """Return a text; `anchor` is start, middle or end."""
    return f'<text class="{style}" x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(text)}</text>'


def bottom(axis: Scale, y: float, label: str, form: Callable[[float], str], top: float = 0) -> str:
    """Return the axis below a chart, with a line up to `top` at every tick."""
    ticks = "".join(
        line(axis.at(one), top, axis.at(one), y, "grid")
        + words(axis.at(one), y + 14, form(one), "middle", "tick")
        for one in axis.ticks()
    )
    return ticks + line(axis.start, y, axis.end, y, "axis") + words(axis.end, y + 30, label, "end", "label")


def left(axis: Scale, x: float, label: str, form: Callable[[float], str], right: float = WIDTH) -> str:
    """Return the axis left of a chart, its label above it, with a line to `right` at every tick."""
    ticks = "".join(
        line(x, axis.at(one), right, axis.at(one), "grid")
        + words(x - 5, axis.at(one) + 4, form(one), "end", "tick")
        for one in axis.ticks()
    )
    return (
        ticks
        + line(x, axis.start, x, axis.end, "axis")
        + words(2, min(axis.start, axis.end) - 8, label, "start", "label")
    )


def svg(name: str, height: float, title: str, body: str) -> str:
    """Return the whole chart; `name` is its id, `title` what a reader who cannot see it is told."""
    return f'<svg id="{escape(name)}" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">{body}</svg>'


def plain(value: float) -> str:
    """Format a tick: 1,440 and 0.25, without digits that say nothing."""
    return f"{value:,.6g}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def signed(value: float) -> str:
    """Format a tick in percent: +5 and 0."""
    return f"{value:+.3g}" if abs(value) > 1e-9 else "0"


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)
