"""Two simulated lines that climb one ladder together: alike, or with noise of two regimes; their base differs, and so do their boots' times.

The levers do the same on both. Beside them stands each line alone, with as many runs of blocks as the two have together.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

import study_line
from study_figures import Row
from tuner import joint
from tuner.course import Course
from tuner.factorial import replay
from tuner.factorial.plan import Plan, plan
from tuner.noise import Noise, pooled, variances
from tuner.steps import Boot, Trial

KINDS: tuple[study_line.Kind, ...] = ("mixed", "null")
LINES = ("A", "B")
PAIRS = {"alike": ("disciplined", "disciplined"), "unlike": ("disciplined", "field")}
"""The regimes of the two lines."""

FASTER = 1.1
"""How much faster the second line is, whatever is on: another base."""

MINUTES = (18.0, 22.0)
"""A boot takes between these; assumed, around the 20 of study_line.yml."""

CALIBRATED = 6
"""Boots of the base of each line, from which its noise is expected; not counted, as for one line."""

OWN: Literal["two lines"] = "two lines"


class Crew:
    """Boots both lines at once, on a clock of its own; ends before the confirmation."""

    def __init__(self, lines: dict[str, study_line.Line], random: np.random.Generator) -> None:
        """Begin at 0 minutes."""
        self.lines, self.random, self.now = lines, random, 0.0
        self.going: list[tuple[float, str, Boot]] = []

    def start(self, line: str, step: Boot) -> None:
        """Begin a boot."""
        self.going.append((self.now + self.random.uniform(*MINUTES), line, step))

    def wait(self) -> Trial:
        """End the boot that ends first."""
        self.going.sort(key=lambda one: one[:2])
        self.now, line, step = self.going.pop(0)
        return replace(self.lines[line].boot(step.on), line=line)


class LinesStudy:
    """Draws ladders, and has them climbed by two lines together and by each alone."""

    def __init__(self, model: study_line.Model, seed: int, error: float, pair: str) -> None:
        """Plan for what boots of both lines tell together."""
        self.regimes = PAIRS[pair]
        self.models = (model, replace(model, base=tuple(FASTER * value for value in model.base)))
        self.model, self.seed, self.regime = model, seed, f"two lines, {pair}"
        self.ladder = model.ladder(error)
        self.plan = plan(self.ladder, pooled([model.noise(regime) for regime in self.regimes]))
        self.alone = {
            f"one line, {regime}": plan(self.ladder, model.noise(regime), self.plan.most)
            for regime in self.regimes
        }
        self.rivals = self.alone
        self.name = f"{seed} {model.extension.about}, {self.regime}, {error}, {self.plan.most} runs"

    def row(self, method: str, kind: study_line.Kind, at: int) -> Row:
        """Climb one ladder by one method; the ladder depends on seed, kind and number alone."""
        place = (self.seed, KINDS.index(kind), at)
        truth = study_line.draw_truth(self.model, kind, np.random.default_rng(place))
        lines = {
            line: study_line.Line(one, regime, truth, np.random.default_rng((*place, 1 + number)))
            for number, (line, one, regime) in enumerate(zip(LINES, self.models, self.regimes, strict=True))
        }
        if method == OWN:
            stack, boots, hours = self._together(lines, np.random.default_rng((*place, 9)), at)
        else:
            stack, boots, hours = self._alone(
                lines[LINES[self.regimes.index(method.rpartition(" ")[2])]], method, at
            )
        accepted = np.array([lever.id in stack for lever in self.ladder.levers])
        gains = np.array(truth.gains)
        good = zip(gains, truth.where, truth.costly, accepted, strict=True)
        return {
            "study": self.name,
            "method": method,
            "regime": self.regime,
            "kind": kind,
            "at": at,
            "boots": boots,
            "wall_hours": hours,
            "wrong": bool((accepted & (gains == 0)).any()),
            "costly": bool((accepted & np.array(truth.costly)).any()),
            "good": [(gain, where, bool(on)) for gain, where, costly, on in good if gain and not costly],
            "regret": 100 * (truth.best - truth.value(accepted)),
        }

    def _calibrated(self, lines: dict[str, study_line.Line]) -> Plan:
        """Expect of each line's noise what six boots of its base say."""
        off = np.zeros(len(self.ladder.levers), dtype=bool)
        noises: list[Noise] = []
        for line, regime in zip(lines.values(), self.regimes, strict=True):
            boots: list[np.ndarray] = []
            while len(boots) < CALIBRATED:
                drawn = line.logs(off)
                if isinstance(drawn, np.ndarray):
                    boots.append(drawn)
            scatter = dict(zip(self.model.metrics, np.std(boots, axis=0, ddof=1), strict=True))
            noises.append(replace(self.model.noise(regime), scatter=scatter, boots=CALIBRATED))
        return replace(self.plan, variances=variances(*noises))

    def _together(
        self, lines: dict[str, study_line.Line], random: np.random.Generator, at: int
    ) -> tuple[tuple[str, ...], int, float]:
        course = Course(design="factorial", rule="proof", seed=at, plan=self._calibrated(lines), lines=LINES)
        crew = Crew(lines, random)
        open_left = {lever.id for lever in self.ladder.levers}
        end = joint.climb(
            self.ladder,
            course,
            (),
            crew,
            lambda event: open_left.discard(getattr(event, "lever", "")),
            enough=lambda _: not open_left,
        )
        return end.stack, len(end.trials), crew.now / 60

    def _alone(self, line: study_line.Line, method: str, at: int) -> tuple[tuple[str, ...], int, float]:
        now = replay.start(self.ladder, self.alone[method], at)
        while now.phase in {"arming", "blocks"} and isinstance(step := replay.ahead(now), Boot):
            now = replay.advance(now, line.boot(step.on))
        return now.stack, len(now.trials), len(now.trials) * sum(MINUTES) / 2 / 60
