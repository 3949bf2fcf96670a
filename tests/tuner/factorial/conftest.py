"""Ladders and lines of known levers for the factorial design; a line is drawn from a seed, so every run is the same."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from tuner.factorial import replay
from tuner.factorial.plan import Plan, plan
from tuner.factorial.progress import Progress
from tuner.lever import Boots, Guard, Ladder, Lever
from tuner.metrics import Metric
from tuner.noise import Noise
from tuner.steps import Boot, On, Trial

NAMES = ("c1", "c6", "prefill")
MOST = 64
"""Runs of the blocks: enough for the effects of the cases."""

NOISE = Noise(scatter={"c1": 0.01, "c6": 0.03, "prefill": 0.015}, correlation=0.45)


@dataclass(kw_only=True)
class Line:
    """A line that wanders, with levers of known effects on the logs of the three metrics.

    `breaks` maps levers to what becomes of a boot in which they are all on; `spoilt` does so for boots by number.
    """

    effects: Mapping[str, tuple[float, float, float]]
    seed: int = 1
    breaks: Mapping[frozenset[str], str] = field(default_factory=dict)
    spoilt: Mapping[int, str] = field(default_factory=dict)
    slow: tuple[int, ...] = ()
    walk: float = 0.003
    level: float = 0.0
    boots: int = 0

    def __post_init__(self) -> None:
        """Start the draws."""
        self.random = np.random.default_rng(self.seed)

    def boot(self, on: On) -> Trial:
        """Boot with these levers on."""
        self.boots += 1
        self.level += self.walk * self.random.standard_normal()
        noise = self.random.multivariate_normal(np.zeros(3), self._covariance())
        outcome = self.spoilt.get(self.boots) or next(
            (end for levers, end in self.breaks.items() if levers <= set(on)), "measured"
        )
        if outcome in {"failed", "void"}:
            return Trial(boot=str(self.boots), arm=on, outcome=outcome, why=f"{outcome} by the script")
        logs = (
            self.level + noise + sum((np.array(self.effects.get(one, (0, 0, 0))) for one in on), np.zeros(3))
        )
        logs -= 0.4 * (self.boots in self.slow)
        metrics = tuple(
            Metric(name=name, value=100 * math.exp(log), unit="tok/s", n=1)
            for name, log in zip(NAMES, logs, strict=True)
        )
        return Trial(boot=str(self.boots), arm=on, outcome="measured", metrics=metrics)

    @staticmethod
    def _covariance() -> np.ndarray:
        scatter = np.array([NOISE.scatter[name] for name in NAMES])
        return np.outer(scatter, scatter) * (0.45 + 0.55 * np.eye(3))


def ladder_with(*levers: Lever, error: float = 0.05) -> Ladder:
    """A ladder of these levers."""
    return Ladder(
        schema=1,
        name="test",
        recipe="r",
        workload="w",
        source="s",
        primary=("c1", "c6"),
        guards=(Guard(metric="prefill", most_loss=0.05),),
        min_gain=0.02,
        error=error,
        boots=Boots(least=2, most=8),
        levers=levers,
    )


def lever_named(name: str, **more: object) -> Lever:
    """A lever of that name."""
    plain = {"id": name, "about": "", "set": {"x": 1}, "kind": "speed", "source": "", "credit": ""}
    return Lever(**plain | more)


def climb_to_the_end(
    ladder: Ladder, boot: Callable[[On], Trial], chosen: Plan | None = None, seed: int = 3
) -> Progress:
    """Boot until nothing is left to boot."""
    now = replay.start(ladder, chosen or plan(ladder, NOISE, most=MOST), seed)
    while isinstance(step := replay.ahead(now), Boot):
        assert step.number < 200
        now = replay.advance(now, boot(step.on))
    return now


@pytest.fixture
def line_of() -> type[Line]:
    """Makes a line."""
    return Line


@pytest.fixture
def ladder_of() -> Callable[..., Ladder]:
    """Makes a ladder of levers."""
    return ladder_with


@pytest.fixture
def lever() -> Callable[..., Lever]:
    """Makes a lever."""
    return lever_named


@pytest.fixture
def climbed() -> Callable[..., Progress]:
    """Climbs to the end."""
    return climb_to_the_end


@pytest.fixture
def planned() -> Callable[..., Plan]:
    """Plans for the noise of the lines here."""
    return lambda ladder, **more: plan(ladder, NOISE, **{"most": MOST} | more)


@pytest.fixture
def twelve() -> Ladder:
    """Twelve levers."""
    return ladder_with(*(lever_named(f"l{at}") for at in range(12)))
