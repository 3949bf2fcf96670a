"""Outcome: what a quality run amounts to: each part's right and wrong answers, the grade of its scores, and one verdict. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tuner import counters
from tuner.lever import Bounds
from tuner.quality import budget as budgets
from tuner.quality import tasks
from tuner.quality.asked import Asked, Counted
from tuner.quality.battery import Battery, Part, parts
from tuner.quality.floor import Grade
from tuner.quality.tasks import Marked

Verdict = Literal["passes", "fails", "inconclusive", "unasked", "kept"]
"""`kept`: every part is right, and the scores are a reference or part of a floor, which nobody judges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """One part of a battery: how many questions, which answers were wrong and how many may be."""

    part: Part
    asked: int
    wrong: tuple[Marked, ...]
    most_wrong: int
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether no more answers are wrong than may be."""
        return len(self.wrong) <= self.most_wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The whole run; `warnings` are what a reader must know beside the verdict."""

    verdict: Verdict
    why: str
    parts: tuple[PartResult, ...]
    grade: Grade | None
    warnings: tuple[str, ...]
    budget: budgets.Grade | None = None
    """Of the replies that were made within the budget, where the battery has any made."""


Dataset = Literal["humaneval", "mbpp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What EvalPlus made of a run's programs: How many problems were solved on the base tests, and on those and EvalPlus' own."""

    dataset: Dataset
    digest: str
    version: str
    problems: int
    base: int
    plus: int


SEED = 20260
"""Of the bootstrap, so that the same replies are judged the same; any number would do."""


def outcome(battery: Battery, asked: Asked, grade: Grade | None, bounds: Bounds | None = None) -> Outcome:
    """Put a run together.

    Args:
        battery: what was asked.
        asked: what came back.
        grade: of the scores, None where they are not to be judged.
        bounds: a ladder's, by which replies within a budget are judged; None for those of `tuner.quality.budget`.

    """
    results = tuple(
        _part(part, battery.most_wrong, asked) for part in parts(battery) if part not in {"probe", "decode"}
    )
    verdict, why = _verdict(results, asked.unscored, grade, scores=battery.probe is not None)
    served = budgets.judge(asked.decoded, bounds, SEED) if asked.decoded and not asked.undecoded else None
    if battery.decode:
        verdict, why = _with_budget((verdict, why), served, asked.undecoded)
    return Outcome(
        verdict=verdict, why=why, parts=results, grade=grade, warnings=_warnings(asked), budget=served
    )


def _with_budget(
    found: tuple[Verdict, str], served: budgets.Grade | None, undecoded: str
) -> tuple[Verdict, str]:
    """Join what the replies within the budget amount to: what is wrong goes before what is unasked, and that before what is open."""
    verdict, why = found
    if served and served.outcome == "exceeds":
        return "fails", f"{why}; {served.why}" if verdict == "fails" else served.why
    if verdict == "fails":
        return found
    if served is None:
        return "unasked", f"no reply could be made and scored: {undecoded}"
    if served.outcome == "inconclusive" and verdict in {"passes", "kept"}:
        return "inconclusive", served.why
    return found


def _part(part: Part, most_wrong: Mapping[Part, int], asked: Asked) -> PartResult:
    own = [one for one in asked.marked if one.part == part]
    return PartResult(
        part=part,
        asked=len(own),
        wrong=tuple(one for one in own if one.fault),
        most_wrong=most_wrong.get(part, 0),
        note=_note(part, asked),
    )


def _note(part: Part, asked: Asked) -> str:
    if part == "repeat":
        number, distinct = tasks.distinct(asked.tasks, asked.said)
        return f"{distinct} different of {number} greedy answers; recorded, not judged"
    if part == "code" and asked.held:
        return f"held by limits on {', '.join(asked.held)}"
    return ""


def _verdict(
    results: Sequence[PartResult], unscored: str, grade: Grade | None, *, scores: bool
) -> tuple[Verdict, str]:
    wrong = [_said(one) for one in results if not one.ok]
    if grade and grade.outcome == "exceeds":
        wrong.append(grade.why)
    if wrong:
        return "fails", "; ".join(wrong)
    if unscored:
        return "unasked", f"the texts could not be scored: {unscored}"
    if grade is None:
        return (
            ("kept", "nothing is wrong")
            if scores
            else ("passes", "nothing is wrong; the texts were not scored")
        )
    return "passes" if grade.outcome == "passes" else "inconclusive", grade.why


def _said(result: PartResult) -> str:
    first = result.wrong[0]
    return f"{result.part}: {len(result.wrong)} of {result.asked} wrong, first {first.id}: {first.fault}"


def _warnings(asked: Asked) -> tuple[str, ...]:
    found = [f"not asked, longer than what is served: {one}" for one in asked.skipped]
    if asked.held and "network" not in asked.held:
        found.append("answered programs ran with a network: unshare gives none here")
    return (*found, *_apart(asked.counted))


def _apart(counted: Counted) -> tuple[str, ...]:
    """Say where server and replies disagree: then somebody else's requests were part of the batch."""
    return tuple(counters.voids(counted.before, counted.after, prompt=counted.prompt, made=counted.made))
