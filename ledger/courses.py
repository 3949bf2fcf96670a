"""A climb's course as part of its plan row, and back: design, rule, seed, and the plan of the blocks with the noise it rests on."""

from dataclasses import asdict
from typing import TypeVar, cast, get_args

from ledger.entry import Body, Json, RowFault
from ledger.fields import get, mapping, number, text, texts, whole
from tuner.course import Course, Design, Rule
from tuner.factorial.plan import Arming, Plan

T = TypeVar("T", bound=str)

OLD = Course(design="ladder", rule="proof", seed=0, plan=None)
"""The course of climbs from before it was written down."""


def write(course: Course) -> Body:
    """Return a course as plain JSON; `lines` stand in it only where there are several."""
    body = {**asdict(course), "plan": _plain(course.plan), "lines": list(course.lines)}
    return cast("Body", {key: value for key, value in body.items() if key != "lines" or course.lines})


def read(found: Json) -> Course:
    """Read a course.

    Raises:
        RowFault: it is none, or it contradicts itself.

    """
    body = mapping(found)
    plan = body.get("plan")
    try:
        return Course(
            design=_one_of(get(body, "design", text), get_args(Design)),
            rule=_one_of(get(body, "rule", text), get_args(Rule)),
            seed=get(body, "seed", whole),
            plan=None if plan is None else _plan(mapping(plan)),
            lines=get(body, "lines", texts) if "lines" in body else (),
        )
    except ValueError as fault:
        raise RowFault(str(fault)) from fault


def _plain(plan: Plan | None) -> Json:
    if plan is None:
        return None
    covariates = {name: list(others) for name, others in plan.covariates.items()}
    whole = {**asdict(plan), "shares": dict(plan.shares), "covariates": covariates}
    return {key: value for key, value in whole.items() if key != "variances" or plan.variances}


def _plan(body: Body) -> Plan:
    shares, covariates = get(body, "shares", mapping), get(body, "covariates", mapping)
    variances = get(body, "variances", mapping) if "variances" in body else {}
    return Plan(
        arming=_one_of(get(body, "arming", text), get_args(Arming)),
        first=get(body, "first", whole),
        step=get(body, "step", whole),
        most=get(body, "most", whole),
        shares={name: get(shares, name, number) for name in shares},
        covariates={name: get(covariates, name, texts) for name in covariates},
        variances={name: get(variances, name, number) for name in variances},
    )


def _one_of(found: str, known: tuple[T, ...]) -> T:
    if found not in known:
        raise RowFault(f"wanted one of {', '.join(known)}, found {found!r}")
    return found
