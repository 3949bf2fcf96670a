"""Suspects: which lever breaks a boot when many are on. Pure group testing over the boots so far (R. Dorfman, 1943).

A lever is cleared by any measured boot it was on in. A run that is lost twice and has levers that are not cleared is halved
until one is left: that one is the culprit once two boots were lost in which nothing else was suspect. Where every lever is
cleared a lost run accuses none: the boot had bad luck, or two of them break together (see `broken_pairs`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations

from tuner.factorial.factors import standing
from tuner.lever import Ladder
from tuner.steps import On, Trial

LOST_TO_ACCUSE = 2
"""Boots lost with the same levers on before any is suspected, and with one suspect alone before it is the culprit."""

FAILED_TO_PAIR = 3
"""Failed boots, and none measured, that show a pair: three chance failures are 1 in 37,000 where one boot in thirty fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A lever that breaks its boots; `failed` when one did not come up or broke a smoke, else all were void."""

    lever: str
    failed: bool
    lost: int
    why: str


def cleared(trials: tuple[Trial, ...]) -> frozenset[str]:
    """Return the levers that were on in a measured boot."""
    return frozenset(name for one in trials if one.outcome == "measured" for name in one.arm)


def search(ladder: Ladder, trials: tuple[Trial, ...], out: Collection[str]) -> On | None:
    """Return the next boot of the search after a lost one, None where nobody is suspect."""
    suspicious = _suspicious(trials, out)
    if suspicious is None:
        return None
    arm, suspects = suspicious
    if len(suspects) == 1 or not (_lost(trials, arm) >= LOST_TO_ACCUSE or _within_accused(trials, arm)):
        return arm
    return standing(ladder, set(arm) - set(suspects[(len(suspects) + 1) // 2 :]))


def culprit(trials: tuple[Trial, ...], out: Collection[str]) -> Culprit | None:
    """Return a lever that was the only suspect in enough lost boots."""
    known = cleared(trials)
    by_lever: dict[str, list[Trial]] = {}
    for one in trials:
        suspects = _suspects(one.arm, known, out)
        if one.outcome != "measured" and len(suspects) == 1 and not set(one.arm) & set(out):
            by_lever.setdefault(suspects[0], []).append(one)
    for name, lost in by_lever.items():
        if len(lost) >= LOST_TO_ACCUSE:
            failed = any(one.outcome == "failed" for one in lost)
            return Culprit(lever=name, failed=failed, lost=len(lost), why=lost[-1].why)
    return None


def broken_pairs(trials: tuple[Trial, ...]) -> tuple[tuple[str, str], ...]:
    """Return pairs of levers that failed in every boot they shared, three at least, though each was measured without the other.

    Half of a block's runs have a lever on and a quarter have two, so a pair that breaks shows within one block.
    """
    known = sorted(cleared(trials))
    measured = [set(one.arm) for one in trials if one.outcome == "measured"]
    failed = [set(one.arm) for one in trials if one.outcome == "failed"]
    return tuple(
        pair
        for pair in combinations(known, 2)
        if sum(set(pair) <= arm for arm in failed) >= FAILED_TO_PAIR
        and not any(set(pair) <= arm for arm in measured)
    )


def _suspicious(trials: tuple[Trial, ...], out: Collection[str]) -> tuple[On, On] | None:
    """Return the lost configuration with the fewest suspects, the latest among equals, and them."""
    known = cleared(trials)
    found = [
        (one.arm, suspects)
        for one in reversed(trials)
        if one.outcome != "measured"
        and not set(one.arm) & set(out)
        and (suspects := _suspects(one.arm, known, out))
    ]
    return min(found, key=lambda pair: len(pair[1]), default=None)


def _suspects(arm: On, known: Collection[str], out: Collection[str]) -> On:
    return tuple(name for name in arm if name not in known and name not in out)


def _lost(trials: tuple[Trial, ...], arm: On) -> int:
    return sum(one.arm == arm and one.outcome != "measured" for one in trials)


def _within_accused(trials: tuple[Trial, ...], arm: On) -> bool:
    """Whether the configuration is part of one that was lost often enough: then it is itself a step of the search."""
    return any(
        set(arm) < set(one.arm) and _lost(trials, one.arm) >= LOST_TO_ACCUSE
        for one in trials
        if one.outcome != "measured"
    )
