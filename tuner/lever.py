"""Levers and the ladder they stand on: what `recipes/ladders/<name>.yml` is read into, and what may be wrong with it."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from tuner.workload import SPEEDS, Quantity

Setting = bool | int | float | str
"""The value a lever gives to a dotted recipe key such as `args.async-scheduling` or `env.NCCL_NTHREADS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A metric that must not get worse by more than `most_loss` (0.05 is 5 %), whatever the lever wins elsewhere."""

    metric: str
    most_loss: float

    def __post_init__(self) -> None:
        if not 0 <= self.most_loss < 1:
            raise ValueError(f"most_loss is {self.most_loss}, wanted a share from 0 to below 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Boots:
    """How many measured boots an arm of a lever gets: at least `least` before a first look, at most `most`."""

    least: int
    most: int

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise ValueError(f"least is {self.least} and most is {self.most}, wanted 1 <= least <= most")

    @property
    def looks(self) -> int:
        """How often a lever is looked at: once for each number of boots from least to most."""
        return self.most - self.least + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a lever that changes numerics may add to the restart floor; None is the floor's own size, see `tuner.quality.floor`.

    KL in nats a token, the share of tokens whose likeliest changes, and the share by which perplexity may rise.
    """

    most_kl_over_floor: float | None = None
    most_top1_changed_over_floor: float | None = None
    most_perplexity_gain: float | None = None

    def __post_init__(self) -> None:
        for one in (self.most_kl_over_floor, self.most_top1_changed_over_floor, self.most_perplexity_gain):
            if one is not None and not 0 <= one < math.inf:
                raise ValueError(f"a bound of quality is {one}, wanted at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change of the recipe.

    `set` maps dotted recipe keys to values. `armed` is what must be seen in a log to prove that the lever took effect
    (empty: nothing is asked for). A `speed` lever is judged by the ladder's metrics; a `profile` lever changes what is
    offered (a longer context, say) and is never judged by speed. `source` tells where its figures come from, `credit`
    whose idea it is. `numerics` says that it is meant to change what is computed: it is accepted with a passed quality only,
    and `batteries` which ones have to pass: where none is named, the standard one, or whichever was asked last of its configuration.
    """

    id: str
    about: str
    set: Mapping[str, Setting]
    kind: Literal["speed", "profile"]
    source: str
    credit: str
    requires: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    armed: str = ""
    numerics: bool = False
    batteries: tuple[str, ...] = ()
    risk: str = ""
    """What it may cost or break, by those who ran it."""
    reported: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By metric the lowest and the highest effect that others published, as shares: 0.058 is +5.8 %. Orders, never judges."""

    def __post_init__(self) -> None:
        if not self.set:
            raise ValueError(f"lever {self.id} sets nothing")
        if self.batteries and not self.numerics:
            raise ValueError(
                f"lever {self.id} names batteries, which only one with numerics: true has to pass"
            )
        for metric, (low, high) in self.reported.items():
            if not -1 < low <= high < math.inf:
                raise ValueError(
                    f"lever {self.id}: reported {metric} is {low} to {high}, wanted the lower share first, above -1"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Levers in the order they are tried, and the bars they are judged by.

    `error` is the chance that the whole ladder accepts any useless lever; `min_gain` the smallest gain that matters
    (0.02 is 2 %). Of the metrics in `primary` and `guards` more is better. `quality` bounds what a lever with `numerics` may do.
    """

    schema: Literal[1]
    name: str
    recipe: str
    workload: str
    source: str
    primary: tuple[str, ...]
    guards: tuple[Guard, ...]
    min_gain: float
    error: float
    boots: Boots
    levers: tuple[Lever, ...]
    quality: Bounds | None = None

    def __post_init__(self) -> None:
        if not self.primary or not self.levers:
            raise ValueError("wanted at least one primary metric and one lever")
        if not 0 < self.error < 1:
            raise ValueError(f"error is {self.error}, wanted a chance between 0 and 1")
        if not 0 <= self.min_gain < math.inf:
            raise ValueError(f"min_gain is {self.min_gain}, wanted a share of at least 0")


def digest(ladder: Ladder) -> str:
    """Return the SHA-256 (hex) of the ladder's canonical JSON: sorted keys, no spaces, UTF-8.

    Without `batteries` where a lever names none: ladders, and climbs that name their digest, are older than that key.
    """
    plain = asdict(ladder)
    for one in plain["levers"]:
        if not one["batteries"]:
            del one["batteries"]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check(
    ladder: Ladder, setting_fault: Callable[[str, Setting], str], measured: Mapping[str, Quantity]
) -> tuple[str, ...]:
    """Return what is wrong between a ladder and the world around it, each fault with its path in the file.

    Args:
        ladder: a ladder whose values are sound by themselves.
        setting_fault: says what is wrong with setting a dotted key of the recipe to a value, or nothing.
        measured: the metrics that its workload gives and what each is read from, see `tuner.workload.quantities`.

    """
    return (
        *_metric_faults(ladder, measured),
        *_setting_faults(ladder, setting_fault),
        *_name_faults(ladder),
    )


def _metric_faults(ladder: Ladder, measured: Mapping[str, Quantity]) -> Iterator[str]:
    named = [(f"$.primary[{at}]", name) for at, name in enumerate(ladder.primary)]
    named += [(f"$.guards[{at}].metric", guard.metric) for at, guard in enumerate(ladder.guards)]
    for place, name in named:
        if name not in measured:
            yield f"{place}: workload {ladder.workload} measures no {name}, only {', '.join(sorted(measured))}"
        elif measured[name] not in SPEEDS:
            speeds = sorted(one for one, quantity in measured.items() if quantity in SPEEDS)
            yield (
                f"{place}: {name} is a {measured[name]}, of which less is better, and every bar asks for more; "
                f"wanted one of {', '.join(speeds)}"
            )


def _setting_faults(ladder: Ladder, setting_fault: Callable[[str, Setting], str]) -> Iterator[str]:
    for at, lever in enumerate(ladder.levers):
        for key, value in lever.set.items():
            if fault := setting_fault(key, value):
                yield f"$.levers[{at}].set: {key}: {fault}"


def _name_faults(ladder: Ladder) -> Iterator[str]:
    ids = [lever.id for lever in ladder.levers]
    for at, lever in enumerate(ladder.levers):
        if lever.id in ids[:at]:
            yield f"$.levers[{at}].id: {lever.id} is already the lever at {ids.index(lever.id)}"
        for name in lever.requires:
            if name not in ids[:at]:
                yield f"$.levers[{at}].requires: no lever before this one is called {name}"
        for name in lever.conflicts:
            if name not in ids:
                yield f"$.levers[{at}].conflicts: no lever is called {name}"
