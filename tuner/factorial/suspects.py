"""Suspects: which lever breaks a boot when many are on. Pure group testing over the boots so far (R. Dorfman, 1943).

A lever is cleared by any measured boot it was on in. A run that is lost twice and has levers that are not cleared is halved
until one is left; that one is booted alone, and is the culprit once it was lost so, and twice with nothing else suspect. Where every
lever is cleared a lost run accuses none: the boot had bad luck, or two of them break together (see `tuner.factorial.pairs`).
"""

from collections.abc import Collection
from dataclasses import dataclass

from tuner.factorial.factors import needs, standing
from tuner.lever import Ladder
from tuner.steps import On, Trial

LOST_TO_ACCUSE = 2
"""Boots lost with the same levers on before any is suspected, and with one suspect alone before it is the culprit."""


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
    if len(suspects) == 1:
        return _alone(ladder, suspects[0])
    if not (_lost(trials, arm) >= LOST_TO_ACCUSE or _within_accused(trials, arm)):
        return arm
    return standing(ladder, set(arm) - set(suspects[(len(suspects) + 1) // 2 :]))


def culprit(ladder: Ladder, trials: tuple[Trial, ...], out: Collection[str]) -> Culprit | None:
    """Return a lever that was the only suspect in enough lost boots, and on by itself in one of them."""
    known = cleared(trials)
    by_lever: dict[str, list[Trial]] = {}
    for one in trials:
        suspects = _suspects(one.arm, known, out)
        if one.outcome != "measured" and len(suspects) == 1 and not set(one.arm) & set(out):
            by_lever.setdefault(suspects[0], []).append(one)
    for name, lost in by_lever.items():
        if len(lost) >= LOST_TO_ACCUSE and any(one.arm == _alone(ladder, name) for one in lost):
            failed = any(one.outcome == "failed" for one in lost)
            return Culprit(lever=name, failed=failed, lost=len(lost), why=lost[-1].why)
    return None


def _alone(ladder: Ladder, name: str) -> On:
    return standing(ladder, {name, *needs(ladder, name)})


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
