"""What `sparkctl quality` prints: the parts, the scores text by text, the floor, and the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bootcheck import redact
from ledger.entry import Row
from ledger.quality import Measured, Role
from sparkctl import edge
from sparkctl.cli.quality_judged import Judged
from sparkctl.cli.session import Session
from sparkctl.console import Column
from tuner.quality import budget, floor
from tuner.quality.bootstrap import Estimate
from tuner.quality.floor import Distance, Grade
from tuner.quality.outcome import Score

_PARTS = {
    "restart": "another boot, alone",
    "mix": "the same boot, among other requests",
    "both": "another boot, among other requests",
}
_WHY_SHOWN = 300
"""Characters of a fault on the screen: a model may answer with a whole page. --json has it all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Everything that is told of one run."""

    row: Row
    measured: Measured
    judged: Judged
    role: Role
    score: Score | None


def show(session: Session, shown: Shown) -> None:
    """Print a run."""
    _parts(session, shown)
    _texts(session, shown.judged.distances)
    _floor(session, shown.judged)
    _grade(session, shown.judged.grade)
    _budget(session, shown.measured.outcome.budget)
    _score(session, shown.score)
    outcome, console = shown.measured.outcome, session.console
    for warning in outcome.warnings:
        console.warn(warning)
    label = " (simulated)" if session.simulated else ""
    against = f", compared with {shown.judged.reference.source}" if shown.judged.reference else ""
    kept = {"run": "", "reference": ", kept as a reference", "floor": ", part of the floor"}[shown.role]
    console.show(f"{outcome.verdict}{label}: {_short(outcome.why)}")
    console.show(
        f"battery {shown.measured.battery.name}, {shown.measured.model}: row {shown.row.n}{kept}{against}"
    )
    console.answer(_document(session, shown))


def _parts(session: Session, shown: Shown) -> None:
    results = shown.measured.outcome.parts
    if not results:
        return
    columns = (
        *(Column(title=title) for title in ("part", "right", "may be wrong", "")),
        Column(title="what was wrong", fold=True),
    )
    rows = [
        (
            one.part,
            f"{one.asked - len(one.wrong)} of {one.asked}",
            str(one.most_wrong),
            "pass" if one.ok else "fail",
            "; ".join(f"{bad.id}: {_short(bad.fault)}" for bad in one.wrong) or one.note,
        )
        for one in results
    ]
    session.console.table(columns, rows)


def _texts(session: Session, distances: tuple[Distance, ...]) -> None:
    if not distances:
        return
    titles = ("text", "tokens", "perplexity", "reference", "KL (nats)", "other top token", "loss (nats)")
    rows = [
        (
            one.text or "all",
            str(one.positions),
            f"{one.perplexity:.4g}",
            f"{one.reference_perplexity:.4g}",
            *(_spread(estimate) for estimate in one.measures.values()),
        )
        for one in distances
    ]
    session.console.table([Column(title=title) for title in titles], rows)


def _floor(session: Session, judged: Judged) -> None:
    if not judged.floor:
        return
    titles = (
        f"floor, {judged.boots} boot{'s' * (judged.boots > 1)}",
        "KL (nats)",
        "other top token",
        "loss (nats)",
    )
    rows = [
        (_PARTS[name], *(_spread(estimate) for estimate in measures.values()))
        for name, measures in judged.floor.items()
    ]
    session.console.table([Column(title=title) for title in titles], rows)


def _grade(session: Session, grade: Grade | None) -> None:
    if grade is None or not grade.judged:
        return
    titles = ("measure", "value", "floor", "added", "at most", "from", "")
    _judged(session, titles, [(one.measure, one) for one in grade.judged])


def _budget(session: Session, grade: budget.Grade | None) -> None:
    if grade is None:
        return
    titles = ("replies within the budget", "value", "read whole", "added", "at most", "from", "")
    _judged(session, titles, [(one.what, one) for one in grade.checks])


def _judged(
    session: Session, titles: tuple[str, ...], checks: Sequence[tuple[str, floor.Judged | budget.Check]]
) -> None:
    """Print what was held against a bound, a row each: its name and the figures that decided."""
    rows = [
        (
            name,
            f"{one.value:.4g}",
            f"{one.floor:.4g}",
            _spread(one.added),
            f"{one.bound:.4g}",
            one.bound_from,
            {"passes": "pass", "exceeds": "fail"}.get(one.outcome, one.outcome),
        )
        for name, one in checks
    ]
    session.console.table([Column(title=title) for title in titles], rows)


def _score(session: Session, score: Score | None) -> None:
    if score is None:
        return
    rows = [
        (name, f"{solved} of {score.problems}", f"{solved / score.problems:.3f}")
        for name, solved in ((score.dataset, score.base), (f"{score.dataset}+", score.plus))
    ]
    titles = (f"evalplus {score.version}", "solved", "pass@1, greedy; recorded, not judged")
    session.console.table([Column(title=title) for title in titles], rows)


def _document(session: Session, shown: Shown) -> dict[str, Any]:
    outcome, judged, body = shown.measured.outcome, shown.judged, shown.row.body
    return {
        "line": shown.row.line or None,
        "ok": outcome.verdict in {"passes", "kept"},
        "verdict": outcome.verdict,
        "why": outcome.why,
        "role": body["role"],
        "parts": body["parts"],
        "probe": edge.plain(judged.grade),
        "texts": edge.plain(judged.distances),
        "floor": edge.plain(judged.floor),
        "floor_boots": judged.boots,
        "reference": judged.reference.source if judged.reference else None,
        "counters": body["counters"],
        "evalplus": body["evalplus"],
        **({"budget": edge.plain(outcome.budget)} if outcome.budget else {}),
        "warnings": list(outcome.warnings),
        "quality": body["quality"],
        "row": shown.row.n,
        "ledger": str(session.ledger_path),
        "simulated": session.simulated,
    }


def _spread(found: Estimate) -> str:
    return f"{found.mean:.4f} ({found.low:.4f} to {found.high:.4f})"


def _short(text: str) -> str:
    # What a model says may be what it was told: an answer is shown like a log.
    return redact.text(" ".join(text.split()))[:_WHY_SHOWN]
