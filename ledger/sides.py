"""Sides: what a word means that is to be compared: a boot, a stack, a climb, an epoch, or a row of others. Pure.

boot-20261130-044007-fa3e       one boot
base, nccl-channels, a+b        every measured boot of that stack, in the last climb that has one
climb-20261130-044007-7094      every measured boot of the stack that this climb kept
climb-20261130-044007-7094:a+b  ... of that stack in this climb
epoch:2, epoch:2:a+b            every measured boot of the base, or of that stack, in the line's second epoch
exl3-G0-A                       a row that was imported
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ledger.boots import Measured, measured
from ledger.entry import Row
from ledger.epochs import Epoch
from ledger.history import Climb, climbs
from ledger.reported import Reported
from ledger.table import reported
from tuner.metrics import Metric


class SideFault(ValueError):
    """A word that means nothing in this ledger, or nothing that was measured; the text says what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison: its values by metric and unit, one a boot, and the boots where they are ours.

    `label` is simulated, reported, or empty for a real line of ours; `voids` counts boots that were left out.
    """

    name: str
    label: str
    values: Mapping[tuple[str, str], tuple[float, ...]]
    boots: tuple[Measured, ...] = ()
    voids: int = 0


def of_metrics(name: str, label: str, metrics: Iterable[Metric]) -> Side:
    """Return the side of one result: one value a metric."""
    return Side(name=name, label=label, values={(one.name, one.unit): (one.value,) for one in metrics})


def resolve(word: str, rows: Sequence[Row], epochs: Sequence[Epoch], line: str | None) -> Side:
    """Return what a word means.

    Raises:
        SideFault: nothing, or something without a measured boot.

    """
    boots = [one for one in measured(rows) if line is None or one.line == line]
    if own := [one for one in boots if one.boot == word]:
        return _side(word, own)
    if word.startswith("epoch:"):
        return _of_epoch(word, boots, epochs)
    found = [one for one in climbs(rows) if line is None or one.line == line]
    for climb in found:
        if word == climb.id or word.startswith(f"{climb.id}:"):
            stack = word.removeprefix(climb.id).removeprefix(":")
            return _side(word, _of_stack(boots, _arm(stack) if stack else climb.stack, climb))
    others = [(file.source, row) for file in reported(rows) for row in file.rows]
    for source, row in others:
        if word == row.row:
            return of_metrics(f"{word} ({source[:60]})", "reported", _metrics(row))
    for climb in reversed(found):
        if own := _of_stack(boots, _arm(word), climb):
            return _side(word, own)
    raise SideFault(_unknown(word, boots, found, [row for _, row in others]))


def _of_epoch(word: str, boots: Sequence[Measured], epochs: Sequence[Epoch]) -> Side:
    number, _, stack = word.removeprefix("epoch:").partition(":")
    ids = next((set(one.boots) for one in epochs if str(one.number) == number), None)
    if ids is None:
        raise SideFault(
            f"{word}: the line has {len(epochs)} epochs, numbered from 1; wanted epoch:N or epoch:N:STACK"
        )
    return _side(
        word, [one for one in boots if one.boot in ids and frozenset(one.on) == _arm(stack or "base")]
    )


def _of_stack(boots: Sequence[Measured], arm: Iterable[str], climb: Climb) -> list[Measured]:
    return [
        one
        for one in boots
        if (one.line, one.simulated, one.climb) == (climb.line, climb.simulated, climb.id)
        and frozenset(one.on) == frozenset(arm)
    ]


def _arm(stack: str) -> frozenset[str]:
    return frozenset() if stack == "base" else frozenset(stack.split("+"))


def _side(name: str, boots: Sequence[Measured]) -> Side:
    counted = tuple(one for one in boots if not one.voids)
    if not counted:
        void = f"; {len(boots)} were void, the first: {boots[0].voids[0]}" if boots else ""
        raise SideFault(f"{name}: no boot of it was measured{void}")
    values: dict[tuple[str, str], tuple[float, ...]] = {}
    for boot in counted:
        for metric in boot.metrics:
            key = (metric.name, metric.unit)
            values[key] = (*values.get(key, ()), metric.value)
    label = "simulated" if counted[0].simulated else ""
    return Side(name=name, label=label, values=values, boots=counted, voids=len(boots) - len(counted))


def _metrics(row: Reported) -> Iterable[Metric]:
    return (
        Metric(
            name=name, value=value, unit="s" if name.endswith("_s") and "tok" not in name else "tok/s", n=1
        )
        for name, value in row.figures
    )


def _unknown(word: str, boots: Sequence[Measured], found: Sequence[Climb], others: Sequence[Reported]) -> str:
    names = [
        *dict.fromkeys(one.stack for one in boots),
        *(one.id for one in found),
        *(one.boot for one in boots),
    ]
    names += [one.row for one in others]
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.5) or names[:5]
    return f"{word} is no file, boot, climb, stack, epoch or imported row of this ledger; " + (
        f"near to it: {', '.join(near)}" if near else "nothing has been measured or imported yet"
    )
