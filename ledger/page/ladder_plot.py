"""The ladder as a plot: each lever's effect on each metric with its interval, beside the line of no difference."""

from collections.abc import Callable, Sequence

from ledger import conclusions
from ledger.history import Climb
from ledger.page.chart import WIDTH, bottom, dot, line, mark, scale, signed, svg, words
from ledger.render import label

_LEFT, _ROW, _TOP = 168.0, 22.0, 8.0
_MOST = 60.0
"""Percent beyond which an interval is cut off at the edge: of two boots it may reach to anywhere. Ours."""


def ladder_plot(climb: Climb, name: str) -> str:
    """Return the plot, or nothing while no lever has an effect."""
    rows = [(one, effect) for one in climb.verdicts for effect in one.effects if effect.estimate is not None]
    if not rows:
        return ""
    ends = [_percent(value) for _, effect in rows for value in (effect.estimate, effect.low, effect.high)]
    axis = scale(
        [min(max(one, -_MOST), _MOST) for one in ends if one is not None], _LEFT, WIDTH - 12, zero=False
    )
    height = _TOP + sum(_heights(rows))
    parts = [bottom(axis, height, "effect against the line without the lever, %", signed, _TOP)]
    parts.append(line(axis.at(0), _TOP, axis.at(0), height, "zero"))
    y = _TOP
    for (verdict, effect), own in zip(rows, _heights(rows), strict=True):
        y += own
        if own > _ROW:
            parts.append(
                words(2, y - _ROW - 4, f"{verdict.lever}: {verdict.verdict}", style=f"name {verdict.verdict}")
            )
        parts.append(_row(verdict, effect, axis.at, y - _ROW / 2))
    return svg(name, height + 38, "effects of the levers with their intervals", "".join(parts))


def _heights(rows: Sequence[tuple[conclusions.Verdict, conclusions.Effect]]) -> list[float]:
    """Return each row's height: the first of a lever has its name above it."""
    firsts = [at == 0 or rows[at - 1][0] is not verdict for at, (verdict, _) in enumerate(rows)]
    return [_ROW * 2 if first else _ROW for first in firsts]


def _row(
    verdict: conclusions.Verdict, effect: conclusions.Effect, at: Callable[[float], float], y: float
) -> str:
    estimate = _percent(effect.estimate) or 0.0
    low, high = _percent(effect.low), _percent(effect.high)
    bounds = line(
        at(-1e9 if low is None else low),
        y,
        at(1e9 if high is None else high),
        y,
        f"interval {verdict.verdict}",
    )
    return words(14, y + 4, label(effect.metric), style="tick") + mark(
        "effect",
        bounds + dot(at(estimate), y, verdict.verdict),
        lever=verdict.lever,
        metric=effect.metric,
        x=estimate,
        low=low,
        high=high,
        verdict=verdict.verdict,
    )


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else (ratio - 1) * 100
