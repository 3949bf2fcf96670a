"""The law that a practice line serves by, as a rank reads it from the line's folder: noise, pace, levers' effects."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rehearsal.model import Between, Noise, Speed, Within
from rehearsal.node import read_json, write_json

Plain = bool | int | float | str


class Lever(NamedTuple):
    """What settings do."""

    when: Mapping[str, Plain]
    effect: Speed
    breaks: str
    damage: float


class Law(NamedTuple):
    """A scenario, in the few figures that a rank needs."""

    pace: float
    seed: int
    boot_s: float
    noise: Noise
    levers: tuple[Lever, ...]
    speed: Speed
    """What the line is faster by, before any lever."""


def read(home: Path) -> Law:
    """Read the law of a line."""
    raw = read_json(home / "law.json")
    noise = Noise(between=Between(**raw["noise"]["between"]), within=Within(**raw["noise"]["within"]))
    levers = tuple(
        Lever(one["when"], Speed(**one["effect"]), one["breaks"], one["damage"]) for one in raw["levers"]
    )
    return Law(raw["pace"], raw["seed"], raw["boot_s"], noise, levers, Speed(**raw["speed"]))


def next_boot(home: Path) -> int:
    """Return the number of this boot of the line, from 1."""
    number: int = read_json(home / "boots.json") + 1
    write_json(home / "boots.json", number)
    return number


def pulled(
    levers: tuple[Lever, ...], arguments: Mapping[str, Plain], environment: Mapping[str, str]
) -> tuple[int, ...]:
    """Return which levers' conditions a rank's command line and environment meet, by index."""
    seen: dict[str, Plain] = {f"args.{flag}": value for flag, value in arguments.items()}
    seen |= {f"env.{name}": value for name, value in environment.items()}
    return tuple(
        index
        for index, lever in enumerate(levers)
        if all(key in seen and _meets(seen[key], wanted) for key, wanted in lever.when.items())
    )


def _meets(value: Plain, wanted: Plain) -> bool:
    """Compare as text, since an environment knows nothing else; one word of a comma list is enough."""
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted or str(value).lower() == str(wanted).lower()
    return str(wanted) in {str(value), *str(value).split(",")}
