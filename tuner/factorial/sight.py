"""What a look sees: every lever's estimates against the bounds that count now; proof, guards, and what hope is left.

The ladder's error is shared among the levers that are not accepted yet and their primaries, so the bounds of those left come
down with each lever that is accepted (stepping down, Holm).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import scipy

from tuner.factorial.bounds import Look, bound
from tuner.factorial.estimates import Estimate, Estimates
from tuner.factorial.plan import WANTED_GAIN, Plan, levers_judged
from tuner.factorial.pooled import Split
from tuner.lever import Guard, Ladder, Lever
from tuner.statistics import Comparison, ratio
from tuner.steps import On

FUTILE_GAIN = 0.03
FUTILE_CHANCE = 0.25
"""A lever is given up once the chance that its gain is still proven, were it +3 %, falls below this on every primary
(conditional power; Lan, Simon and Halperin, Sequential Analysis 1, 1982). Not binding. Ours, by benchmarks/tuner_study.py."""

GUARD_FUTILE_ERRORS = 1.0
"""Likewise once estimate + 1 error lies below a guard's bar."""

LEAST_DEGREES = 8
"""Degrees of freedom below which nothing is given up before the last look: an error known from two or three boots may read as
nothing or as anything. Ours; in the study every look has more."""

LAST_ERRORS = 1.25
LAST_MARGIN = 0.01
"""At the last look an unproven lever is rejected if estimate + 1.25 errors stays below min_gain + 1 % on every primary, and
left open else."""

GUARD_ERROR = 0.05
"""One-sided error of the bound that holds or breaks a guard."""

DIVIDED_ERROR = 0.01
"""Two lines disagree on a lever where its effects there have opposite signs and differ by more than noise makes them in one of
a hundred looks. It can only lose a lever, so no share of the ladder's error is kept for it. Ours."""

LINE_ERROR = 0.05
"""Two-sided error of the interval that is shown of an effect on one of two lines; no verdict rests on it."""

OPEN_POWER = 0.80
"""The power with which an open lever's further boots are planned; no verdict rests on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All looks so far (this one last), whether it is the last, and the estimates.

    `stack` are the levers accepted before, `out` those rejected before, in any order. `quality` holds, by lever, what a quality run of
    it alone amounts to, where it was asked.
    """

    ladder: Ladder
    plan: Plan
    looks: tuple[Look, ...]
    last: bool
    estimates: Estimates
    stack: On
    out: On
    quality: Mapping[str, str] = field(default_factory=dict)

    @property
    def open(self) -> tuple[Lever, ...]:
        """Levers of kind speed that are neither accepted nor rejected, in the ladder's order."""
        decided = {*self.stack, *self.out}
        return tuple(one for one in self.ladder.levers if one.kind == "speed" and one.id not in decided)

    def after(self, *, accepted: On = (), rejected: On = ()) -> "Sight":
        """Return the same look with more levers decided."""
        return replace(self, stack=(*self.stack, *accepted), out=(*self.out, *rejected))


def limit(sight: Sight, metric: str) -> float:
    """Return the bound that an open lever's z has to pass on a primary now; inf where nothing may be spent yet."""
    return bound(_error(sight, metric), sight.looks)


def winners(sight: Sight, lever: str) -> tuple[str, ...]:
    """Return the primaries on which a lever's gain is proven and at least min_gain."""
    found = sight.estimates.get(lever, {})
    size = math.log1p(sight.ladder.min_gain)
    return tuple(
        name
        for name in sight.ladder.primary
        if name in found and found[name].effect >= size and found[name].z > limit(sight, name)
    )


def losers(sight: Sight, lever: str) -> tuple[str, ...]:
    """Return the primaries on which a lever's harm is proven by the same bound."""
    found = sight.estimates.get(lever, {})
    return tuple(
        name for name in sight.ladder.primary if name in found and found[name].z < -limit(sight, name)
    )


def divided(sight: Sight, lever: str) -> tuple[str, ...]:
    """Return the primaries on which two lines disagree about a lever: a gain on the one is a loss on the other."""
    found = sight.estimates.get(lever, {})
    return tuple(
        name
        for name in sight.ladder.primary
        if name in found and (split := found[name].split) is not None and _is_apart(split)
    )


def _is_apart(split: Split) -> bool:
    wanted = -float(scipy.special.stdtrit(split.degrees, DIVIDED_ERROR / 2)) * split.error
    return split.effects[0] * split.effects[1] < 0 and abs(split.difference) > wanted


def by_line(sight: Sight, lever: str) -> dict[str, dict[str, Comparison]]:
    """Return a lever's effects line by line as ratios, each with its own 95 % interval; nothing for a climb on one line."""
    found = sight.estimates.get(lever, {})
    split = {name: one for name, one in found.items() if one.split is not None}
    return {
        line: {name: _on_line(one, at) for name, one in split.items()}
        for at, line in enumerate(next((one.lines for one in split.values()), ()))
    }


def mean_gain(sight: Sight, lever: str) -> float:
    """Return the mean estimate over the primaries, on the log scale; -inf where there is none."""
    found = sight.estimates.get(lever)
    if found is None:
        return -math.inf
    return sum(found[name].effect for name in sight.ladder.primary) / len(sight.ladder.primary)


def is_held(sight: Sight, lever: str, guard: Guard) -> bool:
    """Whether a guard is kept by its bound: the metric is not inferior by more than `most_loss`."""
    found = sight.estimates[lever][guard.metric]
    return found.effect - found.reach(-float(scipy.special.ndtri(GUARD_ERROR))) > math.log1p(-guard.most_loss)


def is_lost(sight: Sight, lever: str, guard: Guard) -> bool:
    """Whether a guard will hardly be kept any more."""
    found = sight.estimates[lever][guard.metric]
    if found.degrees < LEAST_DEGREES and not sight.last:
        return False
    return found.effect + GUARD_FUTILE_ERRORS * found.error < math.log1p(-guard.most_loss)


def is_futile(sight: Sight, lever: str) -> bool:
    """Whether a gain that matters is out of sight on every primary."""
    found = sight.estimates[lever]
    if sight.last:
        bar = math.log1p(sight.ladder.min_gain + LAST_MARGIN)
        return all(
            found[name].effect + LAST_ERRORS * found[name].error < bar for name in sight.ladder.primary
        )
    return all(
        found[name].degrees >= LEAST_DEGREES and hope(sight, name, found[name]) < FUTILE_CHANCE
        for name in sight.ladder.primary
    )


def hope(sight: Sight, name: str, found: Estimate) -> float:
    """Return the chance that a gain is proven by the planned end, if in truth it were FUTILE_GAIN: conditional power.

    With z at share t of the information, e the error expected at the end and d = gain / e: at the end z is normal with mean
    z sqrt(t) + d (1 - t) and variance 1 - t, and has to pass the last bound and min_gain / e.
    """
    now = sight.looks[-1]
    if now.share >= 1:
        return float(found.z > limit(sight, name))
    boots = max(now.information + 1, round(now.information / now.share))
    final = bound(_error(sight, name), (*sight.looks, Look(information=boots, share=1.0)))
    error = found.error * math.sqrt(now.share)
    wanted = max(final, math.log1p(sight.ladder.min_gain) / error)
    expected = found.z * math.sqrt(now.share) + math.log1p(FUTILE_GAIN) / error * (1 - now.share)
    return float(scipy.special.ndtr((expected - wanted) / math.sqrt(1 - now.share)))


def boots_wanted(sight: Sight, lever: str) -> int | None:
    """Return the further boots that would prove the gain seen, or +4 % where that is more: 4 s^2 (z + z_power)^2 / gain^2."""
    needs: list[int] = []
    for name in sight.ladder.primary:
        found, passed = sight.estimates[lever][name], limit(sight, name)
        if math.isfinite(passed) and math.isfinite(found.scatter):
            gain = max(found.effect, math.log1p(WANTED_GAIN))
            quantiles = passed + float(scipy.special.ndtri(OPEN_POWER))
            boots = math.ceil(4 * (found.scatter * quantiles / gain) ** 2)
            needs.append(max(2, boots - sight.looks[-1].information))
    return min(needs, default=None)


def compare(sight: Sight, lever: str) -> dict[str, Comparison]:
    """Return a lever's effects as ratios, each with the interval that decides it."""
    guards = {guard.metric: -float(scipy.special.ndtri(GUARD_ERROR)) for guard in sight.ladder.guards}
    limits = guards | {name: limit(sight, name) for name in sight.ladder.primary}
    return {name: _comparison(found, limits[name]) for name, found in sight.estimates.get(lever, {}).items()}


def _error(sight: Sight, metric: str) -> float:
    """Return the one-sided error of one lever on one primary, over all looks."""
    return sight.ladder.error * sight.plan.shares[metric] / (levers_judged(sight.ladder) - len(sight.stack))


def _comparison(found: Estimate, z: float) -> Comparison:
    reach = found.reach(z)
    return Comparison(
        estimate=ratio(found.effect),
        low=ratio(found.effect - reach),
        high=ratio(found.effect + reach),
        confidence=1 - 2 * float(scipy.special.ndtr(-z)),
        error=found.error,
        scatter=found.scatter,
        n_arm=found.n_on,
        n_base=found.n_off,
        degrees=found.degrees,
        warnings=(f"adjusted by {', '.join(found.adjusted)}",) if found.adjusted else (),
    )


def _on_line(found: Estimate, at: int) -> Comparison:
    split = found.split
    if split is None:
        raise ValueError("an effect of one line, wanted one of two")
    effect, error = split.effects[at], split.errors[at]
    reach = -float(scipy.special.stdtrit(split.degrees, LINE_ERROR / 2)) * error
    return Comparison(
        estimate=ratio(effect),
        low=ratio(effect - reach),
        high=ratio(effect + reach),
        confidence=1 - LINE_ERROR,
        error=error,
        scatter=found.scatter,
        n_arm=split.on[at],
        n_base=split.off[at],
        degrees=split.degrees,
        warnings=(),
    )
