"""Scenarios: what a practice cluster shows and hides. Read from `scenarios/*.yml` through the edge.

The effects of levers are the same under every scenario (`levers.yml`); a scenario may add its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rehearsal.model import GEMV_FAST_GB_S, Noise, Speed
from sparkctl import edge
from sparkctl.errors import UsageFault

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What one node is like; the defaults are a healthy node, and a scenario names only what differs."""

    gemv_gb_s: float = GEMV_FAST_GB_S
    """The hidden state: what the GEMV probe sees, and what the served step time follows."""
    mtu: tuple[int, ...] = (9000, 9000)
    """One a rail."""
    kernel: str = "6.17.0-1032-nvidia"
    """Kernel and driver of a fleet that never showed the slow state (as GEMV_FAST_GB_S, issue 1)."""
    driver: str = "580.173.02"
    cached_gib: float = 0.0
    """Page cache at the start, beyond the little a fresh node has."""
    images: tuple[str, ...] = ("*vllm*", "*dsv41*", "*v41*", "*sparkctl*")
    """Patterns of the image references that the node holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """What settings do to a practice line; simulated."""

    when: Mapping[str, bool | int | float | str]
    """Recipe keys that the ranks can see: `args.<flag>` or `env.<NAME>`; all must match."""
    effect: Speed = field(default_factory=Speed)
    breaks: Literal["", "garble", "start"] = ""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One practice cluster's weather."""

    schema: Literal[1]
    name: str
    about: str
    pace: float
    """How many of the line's seconds pass in one of ours."""
    seed: int
    boot_s: float
    """Start to ready, in the line's seconds; far below a real GB10's 8 to 13 minutes so that practice stays short."""
    noise: Noise
    noise_source: str
    nodes: Mapping[str, Traits] = field(default_factory=dict)
    levers: tuple[Lever, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levers:
    schema: Literal[1]
    levers: tuple[Lever, ...]


def scenarios() -> tuple[Scenario, ...]:
    """Return every scenario, by name."""
    return tuple(edge.read(path, Scenario) for path in sorted((_HERE / "scenarios").glob("*.yml")))


def named(name: str) -> Scenario:
    """Return one scenario; an unknown name is a UsageFault that lists those that exist."""
    found = {path.stem: path for path in (_HERE / "scenarios").glob("*.yml")}
    if name not in found:
        raise UsageFault(
            f"scenario {name!r} is not one of {', '.join(sorted(found))}",
            hint="name one of these; `sparkctl rehearse scenarios` says what each does",
        )
    return edge.read(found[name], Scenario)


def levers(of: Scenario) -> tuple[Lever, ...]:
    """Return the effects of levers under a scenario: those that hold everywhere, then its own."""
    return edge.read(_HERE / "levers.yml", _Levers).levers + of.levers
