"""What a quality row holds: what was asked of which boot, how it was judged, and where its scores lie. Pure.

Scores are kept beside the ledger (`ledger.texts`) and named by their hash. A reference is a row with the role `reference`; rows
with the role `floor` name its scores' hash, and so do runs that were compared with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, cast, get_args

from ledger.entry import Body, Json, Row, RowFault
from ledger.fields import each, flag, get, mapping, number, text, text_or_null, texts, whole
from tuner import counters
from tuner.quality.asked import Asked, Counted
from tuner.quality.battery import Battery, digest
from tuner.quality.floor import Distance
from tuner.quality.outcome import Outcome, PartResult, Score, Verdict

Role = Literal["run", "reference", "floor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What was asked: `boot` and `recipe_digest` of a line of ours ('' elsewhere), version and start of the engine as it tells them."""

    boot: str
    recipe_digest: str
    engine_version: str
    engine_started: str

    @property
    def identity(self) -> str:
        """What tells this boot from another; '' where nothing does."""
        return self.boot or self.engine_started


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One quality run. `scores` and `reference` are hashes, None where there are none or nothing was compared with."""

    quality: str
    role: Role
    model: str
    battery: str
    battery_digest: str
    fingerprint: Fingerprint
    verdict: Verdict
    why: str
    probe: str | None
    """What the scores alone amount to: passes, exceeds, inconclusive; None where they were not judged."""
    scores: str | None
    reference: str | None


def is_run(body: Body) -> bool:
    """Whether a quality row holds a run; ledgers older than the battery have rows of this kind with a free body."""
    return "battery_digest" in body


def quality(body: Body) -> Quality:
    """Read the body of a quality row."""
    each(body.get("parts", ()), _part)
    return Quality(
        quality=get(body, "quality", text),
        role=get(body, "role", _role),
        model=get(body, "model", text),
        battery=get(body, "battery", text),
        battery_digest=get(body, "battery_digest", text),
        fingerprint=get(body, "fingerprint", _fingerprint),
        verdict=get(body, "verdict", _verdict),
        why=get(body, "why", text),
        probe=get(body, "probe", text_or_null),
        scores=get(body, "scores", text_or_null),
        reference=get(body, "reference", text_or_null),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run measured, as its row keeps it beside the verdict; `distances` are from the reference, all texts first."""

    model: str
    battery: Battery
    asked: Asked
    outcome: Outcome
    distances: tuple[Distance, ...]
    started: str
    seconds: float


def record(  # noqa: PLR0913 - all named; each is a key of the row
    measured: Measured,
    *,
    quality: str,
    role: Role,
    fingerprint: Body,
    scores: str | None,
    replies: str | None,
    reference: str | None,
    simulated: bool,
    evalplus: Score | None = None,
) -> Body:
    """Write a quality run.

    Args:
        measured: what was asked and what came of it.
        quality: the run's own name.
        role: a plain run, a reference, or a repeat that belongs to a reference's floor.
        fingerprint: the keys of `Fingerprint`, and whatever else is known of what was asked.
        scores: hash of the scores in the store, None where there are none.
        replies: hash of the answers there.
        reference: hash of the scores that these were compared with or belong to.
        simulated: whether it ran on a practice line.
        evalplus: what EvalPlus made of its answers, if it was asked.

    """
    outcome, asked, grade = measured.outcome, measured.asked, measured.outcome.grade
    return {
        "simulated": simulated,
        "quality": quality,
        "role": role,
        "model": measured.model,
        "battery": measured.battery.name,
        "battery_digest": digest(measured.battery),
        "fingerprint": fingerprint,
        "started": measured.started,
        "seconds": measured.seconds,
        "verdict": outcome.verdict,
        "why": outcome.why.encode("utf-8", "backslashreplace").decode(),
        "probe": grade.outcome if grade else None,
        "floor_boots": grade.boots if grade else 0,
        "measures": [cast("Body", asdict(one)) for one in grade.judged] if grade else [],
        "distances": [cast("Body", asdict(one)) for one in measured.distances],
        "parts": [_told(one) for one in outcome.parts],
        "warnings": list(outcome.warnings),
        "scores": scores,
        "replies": replies,
        "reference": reference,
        "counters": _counted(asked.counted),
        "evalplus": asdict(evalplus) if evalplus else None,
        **_budget(outcome, asked),
    }


def _budget(outcome: Outcome, asked: Asked) -> Body:
    """Return what a run of replies within a budget adds to its row; nothing where none was asked for."""
    if not asked.decoded:
        return {}
    checks = [cast("Body", asdict(one)) for one in outcome.budget.checks] if outcome.budget else []
    return {
        "budget": outcome.budget.outcome if outcome.budget else None,
        "budget_checks": checks,
        "budget_replies": [cast("Body", asdict(one)) for one in asked.decoded],
    }


def _told(part: PartResult) -> Body:
    wrong = [
        {"id": one.id, "fault": one.fault.encode("utf-8", "backslashreplace").decode()} for one in part.wrong
    ]
    return {
        "part": part.part,
        "asked": part.asked,
        "wrong": wrong,
        "most_wrong": part.most_wrong,
        "note": part.note,
    }


def _counted(counted: Counted) -> Body:
    """Return the tokens as the replies and as the server counted them; null where it shows no counters."""
    grown = counters.growth(counted.before, counted.after) if counted.before and counted.after else None
    return {
        "prompt": counted.prompt,
        "made": counted.made,
        "server_prompt": grown.prompt if grown else None,
        "server_made": grown.made if grown else None,
    }


def rows(counted: Sequence[Row], *, battery_digest: str, simulated: bool) -> tuple[tuple[Row, Quality], ...]:
    """Return every quality row of a battery with what it says, oldest first; practice and real lines apart.

    Args:
        counted: the rows that count, see `ledger.retractions.live`.
        battery_digest: of the battery that was asked whole.
        simulated: whether those of practice lines are wanted, or those of real ones.

    """
    told = ((row, quality(row.body)) for row in counted if row.kind == "quality" and is_run(row.body))
    return tuple(
        (row, one)
        for row, one in told
        if one.battery_digest == battery_digest and get(row.body, "simulated", flag) is simulated
    )


def floor_of(found: Sequence[tuple[Row, Quality]], reference: str) -> tuple[Quality, ...]:
    """Return the runs that make the floor of a reference, the last of each boot."""
    own = [one for _, one in found if one.role == "floor" and one.reference == reference and one.scores]
    return _last_of_each(own)


def same_configuration(
    found: Sequence[tuple[Row, Quality]], reference: str, fingerprint: Fingerprint
) -> tuple[Quality, ...]:
    """Return earlier runs on other boots of the configuration in question, compared with the same reference."""
    if not fingerprint.recipe_digest:
        return ()
    own = [
        one
        for _, one in found
        if one.role == "run"
        and one.reference == reference
        and one.scores
        and one.fingerprint.recipe_digest == fingerprint.recipe_digest
        and one.fingerprint.identity != fingerprint.identity
    ]
    return _last_of_each(own)


def batteries(plan: Body) -> Mapping[str, tuple[str, ...]]:
    """Return by lever which batteries it has to pass, from the body of a plan; none where that names none."""
    named = get(plan, "batteries", mapping) if "batteries" in plan else {}
    return {lever: get(named, lever, texts) for lever in named}


def judged(body: Body) -> str:
    """Return what a quality row says of its configuration: `passes` only where answers and scores both did.

    A run that was kept, or that could not ask, or that asked a part of the battery only and found nothing wrong, says nothing: ''.
    """
    one = quality(body)
    if one.verdict == "fails" or one.probe or body.get("budget"):
        return one.verdict
    return ""


def _last_of_each(found: Sequence[Quality]) -> tuple[Quality, ...]:
    return tuple({one.fingerprint.identity or one.quality: one for one in found}.values())


def _fingerprint(found: Json) -> Fingerprint:
    body: Mapping[str, Json] = mapping(found)
    return Fingerprint(
        boot=get(body, "boot", text),
        recipe_digest=get(body, "recipe_digest", text),
        engine_version=get(body, "engine_version", text),
        engine_started=get(body, "engine_started", text),
    )


def _part(found: Json) -> tuple[str, int, float]:
    body = mapping(found)
    return get(body, "part", text), get(body, "asked", whole), get(body, "most_wrong", number)


def _role(found: Json) -> Role:
    if found not in get_args(Role):
        raise RowFault(f"wanted one of {', '.join(get_args(Role))}; found {found!r}")
    return cast("Role", found)


def _verdict(found: Json) -> Verdict:
    if found not in get_args(Verdict):
        raise RowFault(f"wanted one of {', '.join(get_args(Verdict))}; found {found!r}")
    return cast("Verdict", found)
