"""Noise of the line: every measured boot beside the mean of its own configuration, in the order of the boots."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, log

from ledger.history import Climb
from ledger.page.chart import WIDTH, bottom, dot, left, line, mark, plain, scale, signed, svg
from ledger.render import label

_LEFT, _TOP, _BAND, _GAP = 52.0, 26.0, 80.0, 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One boot: its number in the climb, its value over the mean of its configuration's boots in percent, and which that is."""

    number: int
    boot: str
    arm: str
    value: float
    deviation: float


def noise_plot(climb: Climb, name: str) -> str:
    """Return the plot, a band for each metric that verdicts rest on, or nothing where no configuration was booted twice."""
    judged = dict.fromkeys(one.metric for verdict in climb.verdicts for one in verdict.effects)
    bands = [(metric, found) for metric in judged if (found := points(climb, metric))]
    if not bands:
        return ""
    across = scale([float(one.number) for _, found in bands for one in found], _LEFT, WIDTH - 12)
    parts, top = [], _TOP
    for metric, found in bands:
        up = scale([0.0, *(one.deviation for one in found)], top + _BAND, top)
        parts += [
            left(up, _LEFT, f"{label(metric)}, %", signed, WIDTH - 12),
            line(_LEFT, up.at(0), WIDTH - 12, up.at(0), "zero"),
        ]
        parts += [
            mark(
                "noise",
                dot(across.at(one.number), up.at(one.deviation)),
                metric=metric,
                boot=one.boot,
                arm=one.arm,
                x=float(one.number),
                y=one.deviation,
                value=one.value,
            )
            for one in found
        ]
        top += _BAND + _GAP
    foot = top - _GAP
    parts.append(bottom(across, foot, "boot of the climb", plain, foot))
    return svg(name, foot + 38, "noise of the line, boot by boot", "".join(parts))


def points(climb: Climb, metric: str) -> Sequence[Point]:
    """Return the boots of every configuration that was measured at least twice."""
    told = [
        (number, trial.boot, "+".join(sorted(trial.arm)) or "base", one.value)
        for number, trial in enumerate(climb.trials, start=1)
        if trial.outcome == "measured"
        for one in trial.metrics
        if one.name == metric and one.value > 0
    ]
    by_arm: dict[str, list[float]] = {}
    for _, _, arm, value in told:
        by_arm.setdefault(arm, []).append(log(value))
    return tuple(
        Point(
            number=number,
            boot=boot,
            arm=arm,
            value=value,
            deviation=(value / exp(fsum(by_arm[arm]) / len(by_arm[arm])) - 1) * 100,
        )
        for number, boot, arm, value in told
        if len(by_arm[arm]) > 1
    )
