"""What a climb concludes: the bodies of its verdicts and of the note that ends it, and the values that the folds work on."""

from dataclasses import dataclass
from typing import cast, get_args

from ledger.entry import Body, Json, RowFault
from ledger.fields import get, mapping, number_or_null, text, texts, whole
from tuner.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A lever's effect on one metric as a ratio to the stack without it; None is what could not be known yet."""

    metric: str
    estimate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was decided about a lever, after how many boots, and what the seeds' rule would have said."""

    climb: str
    lever: str
    verdict: Outcome
    effects: tuple[Effect, ...]
    boots: int
    voids: int
    seed_rule: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a climb: a note with `ended`; the stack is what was kept.

    `gain` is the stack against the base on `fresh` boots of it that decided about no lever; empty and 0 without a confirmation.
    """

    climb: str
    stack: tuple[str, ...]
    why: str
    gain: tuple[Effect, ...]
    fresh: int


def verdict(body: Body) -> Verdict:
    """Read the body of a verdict."""
    metrics = get(body, "metrics", mapping)
    return Verdict(
        climb=get(body, "climb", text),
        lever=get(body, "lever", text),
        verdict=get(body, "verdict", _outcome),
        effects=tuple(_effect(name, get(metrics, name, mapping)) for name in metrics),
        boots=get(body, "boots", whole),
        voids=get(body, "voids", whole),
        seed_rule=get(body, "seed_rule", text),
        why=get(body, "why", text),
    )


def note(body: Body) -> Ended | None:
    """Read the body of a note: the end of a climb, or None for any other note."""
    if body.get("ended") is not True:
        return None
    gain = get(get(body, "confirmed", mapping), "gain", mapping) if body.get("confirmed") else {}
    return Ended(
        climb=get(body, "climb", text),
        stack=get(body, "stack", texts),
        why=get(body, "why", text),
        gain=tuple(_effect(name, get(gain, name, mapping)) for name in gain),
        fresh=min((get(get(gain, name, mapping), "n_arm", whole) for name in gain), default=0),
    )


def _effect(metric: str, body: Body) -> Effect:
    return Effect(
        metric=metric,
        estimate=get(body, "estimate", number_or_null),
        low=get(body, "low", number_or_null),
        high=get(body, "high", number_or_null),
    )


def _outcome(found: Json) -> Outcome:
    if found not in get_args(Outcome):
        raise RowFault(f"wanted one of {', '.join(get_args(Outcome))}; found {found!r}")
    return cast("Outcome", found)
