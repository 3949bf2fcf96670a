"""What a climb would do, told before its first boot: the levers, what they may bring, what it costs and what it is worth."""

import json
import math
from collections.abc import Iterator, Mapping

from sparkctl import edge
from sparkctl.cli import lever_effects
from sparkctl.cli.course import Planned
from sparkctl.cli.served import Served
from sparkctl.cli.session import Session
from sparkctl.console import Column
from sparkctl.units import percent
from tuner.course import standing
from tuner.lever import Ladder
from tuner.predicted import Effect, shown

WEAK = 0.5
"""Power at +4 % below which a plan says that its budget buys little."""


def show(session: Session, lines: tuple[Served, ...], rungs: Ladder, planned: Planned) -> int:
    """Print the plan; nothing is touched."""
    effects = lever_effects.of_ladder(lines[0], rungs)
    session.console.table(
        (
            *(Column(title=title) for title in ("lever", "kind")),
            Column(title="sets", fold=True),
            Column(title="predicted", fold=True),
            Column(title="reported by others", fold=True),
            Column(title="risk", fold=True),
        ),
        [
            (
                one.id,
                one.kind,
                ", ".join(f"{key}={json.dumps(value)}" for key, value in one.set.items()),
                "\n".join(shown(effect) for effect in effects[one.id]) or "not modelled",
                "\n".join(_reported(metric, ends) for metric, ends in one.reported.items()),
                one.risk,
            )
            for one in rungs.levers
        ],
    )
    for text in _told(lines, rungs, planned):
        session.console.show(text)
    _answer(session, lines, rungs, planned, effects)
    return 0


def _told(lines: tuple[Served, ...], rungs: Ladder, planned: Planned) -> Iterator[str]:
    outlook, course = planned.outlook, planned.course
    rule = "the seeds' rule" if course.rule == "seed" else f"error {rungs.error:.0%} for the whole ladder"
    design = (
        f"factorial blocks, at most {course.plan.most} runs, a first look after {course.plan.first}"
        if course.plan
        else "one lever at a time"
    )
    yield f"ladder {rungs.name} on {_where(lines)}: {len(rungs.levers)} levers, {design}; {rule}"
    most = min(outlook.most, planned.boots or outlook.most)
    expected = min(outlook.expected, most)
    confirmed = (
        f", {outlook.confirmation} of them to confirm the stack" if expected == outlook.expected else ""
    )
    yield (
        f"about {expected} boots, at most {most}{confirmed}; about {outlook.hours(expected):.1f} h at "
        f"{outlook.minutes_a_boot:.0f} min a boot"
    )
    if len(lines) > 1:
        yield (
            f"both lines boot at once, about {math.ceil(expected / 2)} boots each; a lever is judged by both, named where they disagree, "
            "and what wins is confirmed and left serving on each"
        )
    yield _noise(planned)
    for name, powers in outlook.power.items():
        found = ", ".join(f"{percent(1 + gain)} in {power:.0%}" for gain, power in powers.items())
        yield f"predicted chance to prove a gain on {name}: {found}"
    if weak := [name for name, powers in outlook.power.items() if powers[0.04] < WEAK]:
        yield (
            f"this budget buys little: a gain of +4 % on {' or '.join(weak)} is missed more often than found. "
            "More boots, fewer levers, or a quieter line (docs/method.md) help"
        )
    if numeric := [one.id for one in rungs.levers if one.numerics]:
        yield (
            f"{', '.join(numeric)}: meant to change numerics, so accepted only with a passed quality run on record: keep a "
            "reference and its floor first (docs/quality.md)"
        )


def _noise(planned: Planned) -> str:
    found = planned.noise
    spread = ", ".join(f"{name} {scatter:.1%}" for name, scatter in found.scatter.items())
    source = (
        f"as {found.boots} calibration boots of {'this line' if planned.outlook.lines == 1 else 'each line at least'} show"
        if found.boots
        else "as others report it; sparkctl tune --calibrate measures this line's"
    )
    return f"planned for boots that differ by {spread} ({source})"


def _where(lines: tuple[Served, ...]) -> str:
    names = " and ".join(one.line.name for one in lines)
    return f"line {names}" if len(lines) == 1 else f"lines {names}"


def _answer(
    session: Session,
    lines: tuple[Served, ...],
    rungs: Ladder,
    planned: Planned,
    effects: Mapping[str, tuple[Effect, ...]],
) -> None:
    outlook = planned.outlook
    names = [one.line.name for one in lines]
    session.console.answer(
        {
            "line": "+".join(names),
            "lines": names,
            "ladder": edge.plain(rungs),
            "design": planned.course.design,
            "rule": planned.course.rule,
            "runs": edge.plain(planned.course.plan) if planned.course.plan else None,
            "expected_boots": min(outlook.expected, planned.boots or outlook.expected),
            "most_boots": min(outlook.most, planned.boots or outlook.most),
            "minutes_a_boot": round(outlook.minutes_a_boot, 2),
            "power": {
                name: {f"{gain:.2f}": round(power, 3) for gain, power in powers.items()}
                for name, powers in outlook.power.items()
            },
            "noise": edge.plain(planned.noise),
            "hours": round(outlook.hours(min(outlook.expected, planned.boots or outlook.expected)), 2),
            "first": edge.plain(standing(planned.course, rungs, ()).ahead),
            "predicted": edge.plain(effects),
            "simulated": session.simulated,
        }
    )


def _reported(metric: str, ends: tuple[float, float]) -> str:
    low, high = (percent(1 + end) for end in ends)
    return f"{metric} {low}" if low == high else f"{metric} {low} to {high}"
