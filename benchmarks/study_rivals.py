"""Rivals of the factorial climb, on the same lines and seeds: one lever at a time, and optimisers that judge nothing.

Each takes a bench of one line and gives the levers it ends with; the bench counts boots. All get the same help as the climb:
boots that the probe calls slow are repeated, failed ones too, and one 20 % under the running median on C1 and C6 once.
They were tuned far less than the climb was.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import special

from study_line import Line
from tuner.factorial.bounds import Look, bound

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

SIZE, SEED_GAIN, BAR, GUARD_ERROR = math.log(1.02), math.log(1.03), math.log(0.95), 0.05
ERROR = 0.05
"""The ladder's error of rules that have one: Bonferroni over levers and both primaries."""

GS_LOOKS = 4


@dataclass(slots=True)
class Bench:
    """A line that is booted until a boot is measured."""

    line: Line
    recent: list[Floats] = field(default_factory=list)

    @property
    def levers(self) -> int:
        """How many levers there are."""
        return len(self.line.truth.gains)

    def measure(self, on: Mask) -> Floats:
        """Return the logs of one measured boot."""
        repeated = False
        while True:
            logs = self.line.logs(on)
            if not isinstance(logs, np.ndarray):
                continue
            if not repeated and self._is_out(logs):
                repeated = True
                continue
            self.recent = [*self.recent[-8:], logs]
            return logs

    def _is_out(self, logs: Floats) -> bool:
        if len(self.recent) < 3:
            return False
        return all(
            logs[at] - statistics.median(one[at] for one in self.recent) < math.log(0.8) for at in (0, 1)
        )


Rival = Callable[[Bench, np.random.Generator], Mask]


def one_boot(bench: Bench, _: np.random.Generator) -> Mask:
    """Judge by the seeds' rule: one boot a lever, +3 % on C1 or C6 and at most 5 % of prefill; the winner's boot is the new base."""
    stack = np.zeros(bench.levers, dtype=bool)
    base = bench.measure(stack)
    for at in range(bench.levers):
        trying = _with(stack, at)
        found = bench.measure(trying)
        if _seed_passes(found - base):
            stack, base = trying, found
    return stack


def means(boots: int) -> Rival:
    """Judge the means of so many boots an arm by the seeds' rule."""

    def climb(bench: Bench, _: np.random.Generator) -> Mask:
        stack = np.zeros(bench.levers, dtype=bool)
        for at in range(bench.levers):
            trying = _with(stack, at)
            if _seed_passes(_pairs(bench, stack, trying, boots).mean(axis=0)):
                stack = trying
        return stack

    return climb


def fixed_pairs(pairs: int) -> Rival:
    """Judge so many pairs a lever by Student's t at the ladder's error."""

    def climb(bench: Bench, _: np.random.Generator) -> Mask:
        stack = np.zeros(bench.levers, dtype=bool)
        quantile = -float(special.ndtri(ERROR / (2 * bench.levers)))
        for at in range(bench.levers):
            trying = _with(stack, at)
            if _passes(_pairs(bench, stack, trying, pairs), quantile):
                stack = trying
        return stack

    return climb


def sequential_pairs(pairs: int) -> Rival:
    """Judge up to so many pairs a lever at four looks with computed bounds, and give up what looks futile."""

    def climb(bench: Bench, _: np.random.Generator) -> Mask:
        stack = np.zeros(bench.levers, dtype=bool)
        for at in range(bench.levers):
            trying = _with(stack, at)
            if _sequential(bench, stack, trying, pairs):
                stack = trying
        return stack

    return climb


def random_search(boots: int) -> Rival:
    """Boot random subsets and keep the best reading."""

    def climb(bench: Bench, random: np.random.Generator) -> Mask:
        base = bench.measure(np.zeros(bench.levers, dtype=bool))
        tried = [random.random(bench.levers) < 0.5 for _ in range(boots - 1)]
        scores = [_score(bench.measure(on) - base) for on in tried]
        return tried[int(np.argmax(scores))]

    return climb


def successive_halving(boots: int) -> Rival:
    """Halve a field of random subsets by the mean of ever more boots; about as many boots in each of its rounds."""

    def climb(bench: Bench, random: np.random.Generator) -> Mask:
        base = bench.measure(np.zeros(bench.levers, dtype=bool))
        size = 2 ** max(1, int(math.log2(boots / 4)))
        rounds = int(math.log2(size))
        alive = [(random.random(bench.levers) < 0.5, []) for _ in range(size)]
        for _ in range(rounds):
            each = max(1, boots // (rounds * len(alive)))
            for on, scores in alive:
                scores.extend(_score(bench.measure(on) - base) for _ in range(each))
            alive = sorted(alive, key=lambda one: -statistics.fmean(one[1]))[: len(alive) // 2]
        return alive[0][0]

    return climb


def tpe(boots: int) -> Rival:
    """Let Optuna's TPE choose the subsets, one boot each, and keep the best reading."""
    import optuna  # noqa: PLC0415 - an extra that only the study wants

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def climb(bench: Bench, random: np.random.Generator) -> Mask:
        base = bench.measure(np.zeros(bench.levers, dtype=bool))
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=int(random.integers(2**31)))
        )
        for _ in range(boots - 1):
            trial = study.ask()
            on = np.array([trial.suggest_categorical(f"l{at}", [False, True]) for at in range(bench.levers)])
            study.tell(trial, _score(bench.measure(on) - base))
        return np.array([study.best_params[f"l{at}"] for at in range(bench.levers)])

    return climb


def of(regime: str) -> dict[str, Rival]:
    """Return the rivals of a regime by name; optimisers get about the boots that the climb takes."""
    boots = {"disciplined": 54, "field": 92}[regime]
    fixed = {"disciplined": (8, 16, 24, 32, 40), "field": (24, 40, 56, 72, 96)}[regime]
    most = {"disciplined": 24, "field": 64}[regime]
    found: dict[str, Rival] = {
        "one boot a lever (the seeds' rule)": one_boot,
        "means of 4": means(4),
        "means of 8": means(8),
        f"group-sequential pairs, at most {most}": sequential_pairs(most),
        **{f"fixed pairs, {pairs}": fixed_pairs(pairs) for pairs in fixed},
        f"random search, {boots}": random_search(boots),
        f"successive halving, {boots}": successive_halving(boots),
    }
    try:
        found[f"Optuna TPE, {boots}"] = tpe(boots)
    except ImportError:
        return found
    return found


def _with(stack: Mask, at: int) -> Mask:
    on = stack.copy()
    on[at] = True
    return on


def _pairs(bench: Bench, stack: Mask, trying: Mask, pairs: int, before: int = 0) -> Floats:
    """Return the log ratios of pairs, booted A B B A."""
    rows = []
    for pair in range(before, before + pairs):
        if pair % 2:
            on, base = bench.measure(trying), bench.measure(stack)
        else:
            base, on = bench.measure(stack), bench.measure(trying)
        rows.append(on - base)
    return np.array(rows)


def _sequential(bench: Bench, stack: Mask, trying: Mask, pairs: int) -> bool:
    step = pairs // GS_LOOKS
    rows = np.zeros((0, 3))
    looks: tuple[Look, ...] = ()
    for at in range(1, GS_LOOKS + 1):
        rows = np.vstack([rows, _pairs(bench, stack, trying, step, len(rows))])
        looks = (*looks, Look(information=step * at, share=at / GS_LOOKS))
        if _passes(rows, bound(ERROR / (2 * bench.levers), looks)):
            return True
        means, errors = rows.mean(axis=0), rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
        if all(means[:2] + 1.25 * errors[:2] < SEED_GAIN) or means[2] + errors[2] < BAR:
            return False
    return False


def _passes(rows: Floats, quantile: float) -> bool:
    degrees = len(rows) - 1
    means, errors = rows.mean(axis=0), rows.std(axis=0, ddof=1) / math.sqrt(len(rows))
    tails = special.stdtr(degrees, -means[:2] / errors[:2])
    proven = (-special.ndtri(tails) > quantile) & (means[:2] >= SIZE)
    held = means[2] - special.stdtrit(degrees, 1 - GUARD_ERROR) * errors[2] > BAR
    return bool(proven.any() and held)


def _seed_passes(gains: Floats) -> bool:
    return bool(max(gains[:2]) >= SEED_GAIN and gains[2] >= BAR)


def _score(gains: Floats) -> float:
    return float(gains[:2].mean() - 10 * max(0.0, BAR - gains[2]))
