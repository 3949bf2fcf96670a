"""Compared: two sides metric by metric, as ratios with intervals, and what speaks against comparing them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.boots import Measured
from ledger.epochs import Epoch
from ledger.sides import Side
from sparkctl.units import duration
from tuner.statistics import Comparison, compare

CONFIDENCE = 0.95
AGE_APART_S = 1800.0
"""Engines whose ages differ by more are not of the same age: published figures fall within the first hours after a start. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One metric that both sides have: the second side over the first."""

    metric: str
    unit: str
    comparison: Comparison

    @property
    def differs(self) -> bool:
        """Whether a difference is shown: the interval leaves no room for none."""
        return self.comparison.low > 1 or self.comparison.high < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two sides; `only` are the metrics that one of them lacks, `warnings` what else differs between them."""

    first: Side
    second: Side
    lines: tuple[Line, ...]
    only: tuple[str, ...]
    warnings: tuple[str, ...]


def compared(first: Side, second: Side, epochs: Sequence[Epoch]) -> Compared:
    """Compare two sides; a value that has no logarithm is left to `only`."""
    common = [key for key in first.values if key in second.values and _positive(first, second, key)]
    lines = tuple(
        Line(
            metric=metric,
            unit=unit,
            comparison=compare(
                {"first": first.values[metric, unit], "second": second.values[metric, unit]},
                "second",
                "first",
                CONFIDENCE,
            ),
        )
        for metric, unit in sorted(common)
    )
    only = sorted({name for name, unit in (*first.values, *second.values) if (name, unit) not in common})
    return Compared(
        first=first,
        second=second,
        lines=lines,
        only=tuple(only),
        warnings=tuple(_warnings(first, second, epochs)),
    )


def _positive(first: Side, second: Side, key: tuple[str, str]) -> bool:
    return min(*first.values[key], *second.values[key]) > 0


def _warnings(first: Side, second: Side, epochs: Sequence[Epoch]) -> Iterator[str]:
    if first.label != second.label:
        told = [f"{one.name} is {one.label or 'measured by us on a real line'}" for one in (first, second)]
        yield f"{told[0]} and {told[1]}: no verdict can rest on both"
    for one in (first, second):
        if one.voids:
            yield f"{one.name}: {one.voids} void boots are left out"
        yield from _cached(one)
    if first.boots and second.boots:
        yield from _otherwise(first, second)
        yield from _ages(first, second)
        yield from _epochs(first, second, epochs)
    if min(_n(first), _n(second)) < 2:
        yield (
            f"{_n(first)} and {_n(second)} boots: boots differ by themselves, and only two or more of each side show by how much"
        )


def _n(side: Side) -> int:
    return max(map(len, side.values.values()), default=0)


def _cached(side: Side) -> Iterator[str]:
    warm = [one for one in side.boots if one.cached]
    if warm:
        tokens = max(one.cached or 0 for one in warm)
        yield f"{side.name}: the cache was warm in {len(warm)} boots, up to {tokens:,.0f} prompt tokens came from it"


def _otherwise(first: Side, second: Side) -> Iterator[str]:
    sides = (first.boots, second.boots)
    for noun, told in (
        ("line", [_words(one.line for one in boots) for boots in sides]),
        (
            "workload, so other questions were asked",
            [_words(one.workload[:12] for one in boots) for boots in sides],
        ),
        (
            "recipe, levers among it",
            [_words(one.recipe[:12] for one in boots if one.recipe) for boots in sides],
        ),
    ):
        apart = noun.startswith("recipe") and {one.climb for boots in sides for one in boots} == {
            first.boots[0].climb
        }
        if told[0] != told[1] and all(told) and not apart:
            yield f"another {noun}: {told[0]} against {told[1]}"


def _words(found: Iterator[str]) -> str:
    return ", ".join(sorted(set(found)))


def _ages(first: Side, second: Side) -> Iterator[str]:
    ages = [_age(one.boots) for one in (first, second)]
    if ages[0] is not None and ages[1] is not None and abs(ages[0] - ages[1]) > AGE_APART_S:
        yield f"another age of the engine when it was measured: {duration(ages[0])} against {duration(ages[1])} after it was up"


def _age(boots: Sequence[Measured]) -> float | None:
    told = sorted(one.age_s for one in boots if one.age_s is not None)
    return told[len(told) // 2] if told else None


def _epochs(first: Side, second: Side, epochs: Sequence[Epoch]) -> Iterator[str]:
    of = {boot: one for one in epochs for boot in one.boots}
    numbers = [
        sorted({of[one.boot].number for one in side.boots if one.boot in of}) for side in (first, second)
    ]
    if numbers[0] == numbers[1] or not all(numbers):
        return
    told = [", ".join(map(str, one)) for one in numbers]
    yield f"another epoch: {told[0]} against {told[1]}"
    low, high = min(numbers[0] + numbers[1]), max(numbers[0] + numbers[1])
    for epoch in epochs:
        if low < epoch.number <= high:
            yield from (f"epoch {epoch.number}: {change}" for change in epoch.changed)
