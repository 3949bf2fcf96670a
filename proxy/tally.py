"""Tally: what went through a proxy since it started, and the alarms as they are told."""

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.depth import Depths
from proxy.reply import Alarm
from proxy.thresholds import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An alarm of a reply, with the model that was asked, the temperature and the limits that held."""

    alarm: Alarm
    model: str
    temperature: float
    limits: Limits


@dataclass(slots=True, kw_only=True)
class Tally:
    """What went through since the start; `unwatched` by reason.

    While calibrating, by temperature: `depths` of the watched that are healthy, and how many are not, since they loop by themselves.
    """

    requests: int = 0
    watched: int = 0
    broken: int = 0
    unwatched: dict[str, int] = field(default_factory=dict)
    alarms: dict[str, int] = field(default_factory=dict)
    depths: dict[float, list[Depths]] = field(default_factory=dict)
    loops: dict[float, int] = field(default_factory=dict)


Told = Callable[[Event], None]
"""Who is told of an alarm."""
