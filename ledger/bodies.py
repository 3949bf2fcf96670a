"""What the body of a row must say, kind by kind, and the values that the folds work on.

A body may say more than this (a bench keeps every request, a boot every finding); what is named here must be there
and have its type. Reading is strict: no text for a number, no default for a missing key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never, cast, get_args

from ledger import calibrations, conclusions, courses, foretold, quality, reported, retractions
from ledger.entry import Body, Json, Kind, RowFault
from ledger.fields import (
    each,
    flag,
    get,
    mapping,
    metric,
    names,
    number_or_null,
    settings_of,
    text,
    text_or_null,
    texts,
)
from tuner.course import Course
from tuner.lever import Setting
from tuner.metrics import Metric
from tuner.predicted import Effect as Predicted

StepState = Literal["began", "done", "failed"]
_STATES = get_args(StepState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The start of a climb; `settings` says what each lever sets, `predicted` what the models said of it before its first boot.

    `course` says by which design and rule; `pace` and `scenario` how fast a practice line runs and what it shows, where known. `credits`
    by lever whose idea it is; none in plans from before they said so.
    """

    climb: str
    ladder: str
    ladder_digest: str
    recipe: str
    recipe_digest: str
    workload_digest: str
    levers: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Setting]]
    course: Course
    predicted: Mapping[str, tuple[Predicted, ...]]
    pace: float | None
    scenario: str | None
    batteries: Mapping[str, tuple[str, ...]]
    credits: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """A boot that came up or did not; `climb` is None outside a climb.

    `void` marks a boot that did not come up and says nothing of the levers: a gate stopped it, or a node could not be
    asked. It is no trial at all, neither failed nor void.
    """

    boot: str
    climb: str | None
    on: tuple[str, ...]
    ok: bool
    why: str
    void: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A stage of a boot began or ended; `why` says why it failed. Written before and after, so that a crash shows where."""

    boot: str
    stage: str
    state: StepState
    why: str
    recipe_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What was measured on a boot; with `voids` the figures are kept and do not count. `quality`: see `tuner.steps.Trial`."""

    boot: str
    climb: str | None
    on: tuple[str, ...]
    voids: tuple[str, ...]
    metrics: tuple[Metric, ...]
    quality: str


def check(kind: Kind, body: Body) -> None:  # noqa: C901, PLR0912 - one case a kind reads as the table it is
    """Check that a body says what its kind must say.

    Raises:
        RowFault: a key is missing or has the wrong type.

    """
    is_simulated(body)
    match kind:
        case "plan":
            plan(body)
        case "boot":
            boot(body)
        case "bench":
            bench(body)
        case "verdict":
            conclusions.verdict(body)
        case "import":
            reported.imported(body)
        case "note":
            conclusions.note(body)
        case "retract":
            retractions.retracts(body)
        case "step":
            if not _is_step(body):
                step(body)
        case "quality":
            _quality(body)
        case "calibration":
            calibrations.check(body)
        case "alarm":
            pass
        case _ as never:
            assert_never(never)


def _is_step(body: Body) -> bool:
    """Whether a body is plainly a step's: four rows in five are, and reading each as one costs more than hashing it."""
    words = (body.get("boot"), body.get("stage"), body.get("why"), body.get("recipe_digest"))
    return body.get("state") in _STATES and all(type(one) is str for one in words)


def _quality(body: Body) -> None:
    if quality.is_run(body):
        quality.quality(body)


def is_simulated(body: Body) -> bool:
    """Whether the row comes from a practice line; asked of every row of a table, so the plain case goes the short way."""
    found = body.get("simulated")
    return found if isinstance(found, bool) else get(body, "simulated", flag)


def plan(body: Body) -> Plan:
    """Read the body of a plan."""
    settings = get(body, "settings", mapping) if "settings" in body else {}
    return Plan(
        climb=get(body, "climb", text),
        ladder=get(body, "ladder", text),
        ladder_digest=get(body, "ladder_digest", text),
        recipe=get(body, "recipe", text),
        recipe_digest=get(body, "recipe_digest", text),
        workload_digest=get(body, "workload_digest", text),
        levers=get(body, "levers", texts),
        settings={lever: get(settings, lever, settings_of) for lever in settings},
        course=get(body, "course", courses.read) if "course" in body else courses.OLD,
        predicted=get(body, "predicted", foretold.foretold) if "predicted" in body else {},
        pace=get(body, "pace", number_or_null) if "pace" in body else None,
        scenario=get(body, "scenario", text_or_null) if "scenario" in body else None,
        batteries=quality.batteries(body),
        credits=get(body, "credits", names) if "credits" in body else {},
    )


def boot(body: Body) -> Boot:
    """Read the body of a boot."""
    return Boot(
        boot=get(body, "boot", text),
        climb=get(body, "climb", text_or_null),
        on=get(body, "on", texts),
        ok=get(body, "ok", flag),
        why=get(body, "why", text),
        void=get(body, "void", flag) if "void" in body else False,
    )


def step(body: Body) -> Step:
    """Read the body of a step."""
    return Step(
        boot=get(body, "boot", text),
        stage=get(body, "stage", text),
        state=get(body, "state", _state),
        why=get(body, "why", text),
        recipe_digest=get(body, "recipe_digest", text),
    )


def bench(body: Body) -> Bench:
    """Read the body of a bench."""
    return Bench(
        boot=get(body, "boot", text),
        climb=get(body, "climb", text_or_null),
        on=get(body, "on", texts),
        voids=get(body, "voids", texts),
        metrics=get(body, "metrics", lambda found: each(found, metric)),
        quality=get(body, "quality", text) if "quality" in body else "",
    )


def _state(found: Json) -> StepState:
    if found not in get_args(StepState):
        raise RowFault(f"wanted one of {', '.join(get_args(StepState))}; found {found!r}")
    return cast("StepState", found)
