"""The simulated line of the study: from study_line.yml and a seed to ladders with known effects and to boots drawn on them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparkctl import edge
from tuner.lever import Boots, Guard, Ladder, Lever
from tuner.metrics import Metric
from tuner.noise import Noise
from tuner.steps import On, Trial

Kind = Literal["mixed", "null"]
Where = Literal["C1", "C6", "both", ""]
Floats = NDArray[np.float64]

WHERE: tuple[Where, ...] = ("C1", "C6", "both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Standard deviation of each metric's log from boot to boot."""

    scatter: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A jump of the level, up or down, in one boot of 1 / chance."""

    size: float
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """The hidden slow state: how often, what it costs each metric, how often the probe sees it and cries wolf."""

    chance: float
    factors: tuple[float, ...]
    seen: float
    false_alarm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmful:
    """Levers that harm, and the least and most they cost."""

    count: int
    loss: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefill:
    """What some levers cost in prefill, and how many of the good and of the useless ones do."""

    loss: float
    of_gains: float
    of_useless: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Levers:
    """The levers of a mixed ladder; a null ladder has as many, all useless."""

    gains: tuple[float, ...]
    useless: int
    harmful: Harmful
    prefill: Prefill
    interaction: float

    @property
    def count(self) -> int:
        """How many levers a ladder has."""
        return len(self.gains) + self.useless + self.harmful.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """What a ladder asks for."""

    primary: tuple[str, ...]
    guard: Guard
    min_gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Something that the model leaves out: see the file."""

    about: str
    stays_slow: float = 0.0
    ageing: float = 0.0
    toxic: int = 0
    noisy: float = 1.0
    interaction: float = 0.0
    side_effect: float = 0.0


PLAIN = Extension(about="the model as it stands")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """study_line.yml; `extension` is what is added to it."""

    schema: Literal[1]
    metrics: tuple[str, ...]
    base: tuple[float, ...]
    regimes: Mapping[str, Regime]
    correlation: tuple[float, float]
    walk: float
    step: Step
    slow: Slow
    failed: float
    boot_minutes: float
    levers: Levers
    bars: Bars
    extensions: Mapping[str, Extension]
    extension: Extension = PLAIN

    def noise(self, regime: str) -> Noise:
        """Return what a calibration of this line would say: the scatter, and the middle of the correlations."""
        scatter = dict(zip(self.metrics, self.regimes[regime].scatter, strict=True))
        return Noise(scatter=scatter, correlation=sum(self.correlation) / 2)

    def ladder(self, error: float) -> Ladder:
        """Return the ladder that every method is given."""
        levers = tuple(
            Lever(id=f"l{at:02d}", about="", set={"x": at}, kind="speed", source="", credit="")
            for at in range(self.levers.count)
        )
        return Ladder(
            schema=1,
            name="study",
            recipe="",
            workload="",
            source="",
            primary=self.bars.primary,
            guards=(self.bars.guard,),
            min_gain=self.bars.min_gain,
            error=error,
            boots=Boots(least=2, most=8),
            levers=levers,
        )


def read(extension: str = "") -> Model:
    """Read study_line.yml, with one of its extensions if named."""
    model = edge.read(Path(__file__).with_name("study_line.yml"), Model)
    return replace(model, extension=model.extensions[extension]) if extension else model


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What the levers of one ladder do: `effects` on the logs, shape (levers, 3); `pairs` on C1 and C6, (levers, levers, 2).

    `gains` holds the size of a good lever and 0 otherwise, `where` the primaries it acts on, `costly` who breaks the guard.
    """

    effects: Floats
    pairs: Floats
    gains: tuple[float, ...]
    where: tuple[Where, ...]
    costly: tuple[bool, ...]
    toxic: tuple[int, ...] = ()
    noisy: tuple[int, ...] = ()

    def logs(self, on: NDArray[np.bool_]) -> Floats:
        """Return what these levers together do to the log of each metric."""
        total = self.effects[on].sum(axis=0)
        total[:2] += self.pairs[np.ix_(on, on)].sum(axis=(0, 1)) / 2
        return total

    def value(self, on: NDArray[np.bool_]) -> float:
        """Return half the log of C1 and half of C6; a lever that breaks the guard earns nothing."""
        return float(self.logs(on & ~np.array(self.costly))[:2].mean())

    @cached_property
    def best(self) -> float:
        """The value of the best of all subsets; levers that do nothing do not matter."""
        acting = [at for at in range(len(self.gains)) if self.effects[at, :2].any() and not self.costly[at]]
        return max(self.value(on) for on in self._subsets(acting))

    def _subsets(self, acting: list[int]) -> Iterator[NDArray[np.bool_]]:
        for size in range(len(acting) + 1):
            for chosen in combinations(acting, size):
                on = np.zeros(len(self.gains), dtype=bool)
                on[list(chosen)] = True
                yield on


def draw_truth(model: Model, kind: Kind, random: np.random.Generator) -> Truth:
    """Draw a ladder: in a mixed one gains, useless and harmful levers in random places."""
    levers = model.levers
    count = levers.count
    order = random.permutation(count)
    effects = np.zeros((count, 3))
    gains, where, costly = [0.0] * count, [""] * count, [False] * count
    good = len(levers.gains) if kind == "mixed" else 0
    bad = levers.harmful.count if kind == "mixed" else 0
    for rank, at in enumerate(order):
        place = WHERE[random.integers(3)]
        if rank < good:
            size = math.log1p(levers.gains[rank])
            gains[at], where[at] = levers.gains[rank], place
        elif rank < good + bad:
            size = math.log1p(-random.uniform(*levers.harmful.loss))
        else:
            size = 0.0
        effects[at, 0] = size if place != "C6" else 0.0
        effects[at, 1] = size if place != "C1" else 0.0
        share = levers.prefill.of_gains if rank < good else levers.prefill.of_useless
        if not good <= rank < good + bad and random.random() < share:
            effects[at, 2], costly[at] = math.log1p(-levers.prefill.loss), True
    acting = effects[:, :2].any(axis=1)
    spread = model.extension.interaction or levers.interaction
    pairs = np.triu(random.normal(0, spread, (2, count, count)), 1)
    pairs = (pairs + pairs.transpose(0, 2, 1)) * (acting[:, None] & acting[None, :])
    _shift(model, effects, order[good + bad :], random)
    return Truth(
        effects=effects,
        pairs=np.moveaxis(pairs, 0, 2),
        gains=tuple(gains),
        where=tuple(where),
        costly=tuple(costly),
        toxic=tuple(int(at) for at in order[good + bad :][: model.extension.toxic]),
        noisy=tuple(int(at) for at in order[good + bad :][-1:]) if model.extension.noisy > 1 else (),
    )


def _shift(model: Model, effects: Floats, useless: NDArray[np.int_], random: np.random.Generator) -> None:
    """Let useless levers move C1 and prefill a little; on C1 only down, or they would not be useless."""
    size = model.extension.side_effect
    if size:
        effects[useless, 0] -= size * random.random(len(useless))
        effects[useless, 2] += size * random.uniform(-1, 1, len(useless))


class Line:
    """One line in one regime with one ladder's levers: every call of `boot` is a boot."""

    def __init__(self, model: Model, regime: str, truth: Truth, random: np.random.Generator) -> None:
        """Draw this line's correlation; its level starts at nominal speed."""
        self.model, self.truth, self.random = model, truth, random
        scatter = np.array(model.regimes[regime].scatter)
        matrix = np.full((3, 3), random.uniform(*model.correlation))
        np.fill_diagonal(matrix, 1.0)
        self.root = scatter[:, None] * np.linalg.cholesky(matrix)
        self.nominal = np.log(model.base)
        self.slow = np.log(model.slow.factors)
        self.level, self.boots, self.was_slow = 0.0, 0, False

    def logs(self, on: NDArray[np.bool_]) -> Floats | Literal["failed"] | None:
        """Draw the logs of one boot; None if the probe says it is slow."""
        model, draws = self.model, self.random.random(6)
        self.boots += 1
        self.level += model.walk * self.random.standard_normal() - model.extension.ageing
        if draws[0] < model.step.chance:
            self.level += math.copysign(model.step.size, draws[1] - 0.5)
        noise = self.root @ self.random.standard_normal(3)
        noise *= model.extension.noisy if on[list(self.truth.noisy)].any() else 1.0
        if draws[2] < model.failed or on[list(self.truth.toxic)].any():
            return "failed"
        chance = (
            model.extension.stays_slow if self.was_slow and model.extension.stays_slow else model.slow.chance
        )
        slow = self.was_slow = bool(draws[3] < chance)
        if draws[4] < (model.slow.seen if slow else model.slow.false_alarm):
            return None
        return self.nominal + self.truth.logs(on) + self.level + noise - slow * self.slow

    def boot(self, on: On) -> Trial:
        """Boot with these levers on."""
        mask = np.zeros(len(self.truth.gains), dtype=bool)
        mask[[int(name[1:]) for name in on]] = True
        drawn = self.logs(mask)
        boot = str(self.boots)
        if isinstance(drawn, str):
            return Trial(boot=boot, arm=on, outcome="failed", why="did not come up")
        if drawn is None:
            return Trial(boot=boot, arm=on, outcome="void", why="slow before the launch")
        metrics = tuple(
            Metric(name=name, value=math.exp(log), unit="tok/s", n=1)
            for name, log in zip(self.model.metrics, drawn, strict=True)
        )
        return Trial(boot=boot, arm=on, outcome="measured", metrics=metrics)
