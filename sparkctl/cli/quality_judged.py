"""Judged: the scores of a run against a reference and its floor, as far as there are any."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledger.quality import Fingerprint, Role
from sparkctl.cli.quality_ground import Ground, Reference
from tuner.lever import Bounds
from tuner.quality import floor
from tuner.quality.bootstrap import Estimate
from tuner.quality.floor import Distance, Grade, Measure, Run

SEED = 20260
"""Of the bootstrap, so that the same scores are judged the same; any number would do."""

_NO_REFERENCE = (
    "no reference yet: run it once with --keep, on the configuration that others are to be compared with"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of the scores: `whole` when every text was scored; `boots` are those that the floor rests on."""

    whole: bool = True
    reference: Reference | None = None
    grade: Grade | None = None
    distances: tuple[Distance, ...] = ()
    floor: Mapping[str, Mapping[Measure, Estimate]] = field(default_factory=dict)
    boots: int = 0


UNSCORED = Judged(whole=False)
"""Of a run that scored no texts, or not all of them."""


def judge(
    known: Ground,
    reference: Reference | None,
    asked: Fingerprint,
    role: Role,
    run: Run,
    bounds: Bounds | None,
) -> Judged:
    """Compare a run with the reference; one that becomes a reference, or joins a floor, is shown and not judged."""
    if role == "reference" or reference is None:
        grade = None if role == "reference" else Grade(outcome="inconclusive", why=_NO_REFERENCE)
        return Judged(grade=grade, floor=floor.floor(run, (), SEED), boots=1)
    repeats = known.floor(reference)
    repeats = (*repeats, run) if role == "floor" else repeats
    try:
        distances = floor.distances(reference.run, run, SEED)
        grade = None
        if role == "run":
            grade = floor.judge(reference.run, repeats, (*known.alike(reference, asked), run), bounds, SEED)
        parts = floor.floor(reference.run, repeats, SEED)
    except ValueError as fault:
        why = f"not to be compared with {reference.source}: {fault}"
        return Judged(grade=Grade(outcome="inconclusive", why=why))
    boots = 1 + len({one.boot for one in repeats})
    return Judged(reference=reference, grade=grade, distances=distances, floor=parts, boots=boots)
