"""Graded: what the quality battery said of the best configuration, and how far it lies from its reference beside the floor. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.best import Best
from ledger.bodies import is_simulated
from ledger.entry import Json, Row
from ledger.fields import each, get, mapping, number, text, whole
from ledger.quality import is_run, quality
from ledger.retractions import live

WORDS = {
    "kl_nats": "KL from the reference (nats)",
    "top1_changed": "another likeliest token",
    "loss_nats": "likelihood lost (nats)",
}
"""What the measures of `tuner.quality.floor` are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One measure: what was found, what restarts of the reference alone make of it, and the most that may be added to that."""

    measure: str
    value: float
    floor: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """The last quality run of a configuration; `boots` make its floor, 0 where there is none."""

    verdict: str
    why: str
    boots: int
    beside: tuple[Beside, ...]


def graded(one: Best, rows: Sequence[Row]) -> Graded | None:
    """Return the last quality run on a boot of that configuration, or on another boot of the same recipe; None where none was asked."""
    climb = one.climb
    boots = {trial.boot for trial in climb.trials if frozenset(trial.arm) == frozenset(one.stack)}
    own = [row for row in live(rows) if (row.line, is_simulated(row.body)) == (climb.line, climb.simulated)]
    digests = {
        row.body.get("recipe_digest") for row in own if row.kind == "boot" and row.body.get("boot") in boots
    }
    runs = [
        row for row in own if row.kind == "quality" and is_run(row.body) and quality(row.body).role == "run"
    ]
    asked = [row for row in runs if quality(row.body).fingerprint.recipe_digest in digests]
    return _graded(asked[-1]) if asked else None


def said(found: Graded | None) -> str:
    """Say it in one sentence."""
    if found is None:
        return "Quality: not asked of this configuration."
    beside = "; ".join(
        f"{WORDS.get(one.measure, one.measure)} {one.value:.3g}, floor {one.floor:.3g}, may add {one.bound:.3g}"
        for one in found.beside
    )
    floor = f" Beside the floor that {found.boots} boots make: {beside}." if beside else ""
    return f"Quality {found.verdict}: {found.why}.{floor}"


def _graded(row: Row) -> Graded:
    one = quality(row.body)
    return Graded(
        verdict=one.verdict,
        why=one.why.rstrip("."),
        boots=get(row.body, "floor_boots", whole) if "floor_boots" in row.body else 0,
        beside=get(row.body, "measures", lambda found: each(found, _beside))
        if "measures" in row.body
        else (),
    )


def _beside(found: Json) -> Beside:
    body = mapping(found)
    return Beside(
        measure=get(body, "measure", text),
        value=get(body, "value", number),
        floor=get(body, "floor", number),
        bound=get(body, "bound", number),
    )
