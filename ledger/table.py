"""Rows to the rows of tables: a climb's ladder, what others reported, and the ledger's own list. Values in, text out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from ledger import bodies, conclusions, retractions
from ledger.entry import Json, Row
from ledger.fields import each, get, mapping, texts
from ledger.history import Climb
from ledger.quality import is_run, quality
from ledger.reported import Import, imported
from ledger.retractions import live
from sparkctl.units import percent
from tuner.verdict import Outcome

Standing = Outcome | Literal["open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A lever of a climb's ladder; `effects` are (metric, text) and `open` says that no verdict is recorded yet."""

    lever: str
    effects: tuple[tuple[str, str], ...]
    verdict: Standing
    boots: int
    voids: int
    seed_rule: str
    why: str
    credit: str = ""
    """Whose idea the lever is, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A row of the ledger as `ledger list` shows it; `label` is simulated, reported, or empty for a real line."""

    n: int
    at: str
    kind: str
    line: str
    label: str
    about: str
    retracted: bool


def ladder(climb: Climb, credits_: Mapping[str, str] = MappingProxyType({})) -> tuple[Rung, ...]:
    """Return the ladder of a climb in the order of its plan; `credits_` by lever stand in where the plan names none."""
    verdicts = {one.lever: one for one in climb.verdicts}
    thanked = {**credits_, **climb.plan.credits}
    return tuple(
        replace(_rung(lever, verdicts.get(lever)), credit=thanked.get(lever, ""))
        for lever in climb.plan.levers
    )


def grid(rungs: Sequence[Rung]) -> tuple[tuple[str, ...], tuple[str, ...], list[tuple[str, ...]]]:
    """Return a ladder as a table: the metrics after the lever, the titles of the columns after those, and a row for each rung.

    There is no column of credits where none is known.
    """
    metrics = tuple(sorted({metric for rung in rungs for metric, _ in rung.effects}))
    credited = any(rung.credit for rung in rungs)
    titles = ("verdict", "boots", "voids", "seeds' rule", "why", *(("credit",) if credited else ()))
    return (
        metrics,
        titles,
        [
            (
                rung.lever,
                *(dict(rung.effects).get(metric, "") for metric in metrics),
                rung.verdict,
                str(rung.boots),
                str(rung.voids),
                rung.seed_rule,
                rung.why,
                *((rung.credit,) if credited else ()),
            )
            for rung in rungs
        ],
    )


def effect(one: conclusions.Effect) -> str:
    """Format an effect: `+5.9 % [+4.8, +7.0]`, with `~` for the estimate where the interval includes no difference.

    A bound that could not be known yet is shown as `?` and excludes nothing.
    """
    if one.estimate is None:
        return "not measured"
    apart = (one.low is not None and one.low > 1) or (one.high is not None and one.high < 1)
    shown = percent(one.estimate) if apart else "~"
    return f"{shown} [{_bound(one.low)}, {_bound(one.high)}]"


def reported(rows: Sequence[Row]) -> tuple[Import, ...]:
    """Return what others reported, file by file: one boot a row, with their verdict and none of ours."""
    return tuple(imported(row.body) for row in live(rows) if row.kind == "import")


def listed(rows: Sequence[Row]) -> tuple[Listed, ...]:
    """Return every row, the retracted ones too, each with a few words on what it says."""
    counted = {row.n for row in live(rows)}
    return tuple(
        Listed(
            n=row.n,
            at=row.at,
            kind=row.kind,
            line=row.line,
            label=_label(row),
            about=_about(row),
            retracted=row.n not in counted and row.kind != "retract",
        )
        for row in rows
    )


def _bound(ratio: float | None) -> str:
    return "?" if ratio is None else f"{(ratio - 1) * 100:+.1f}"


def _rung(lever: str, verdict: conclusions.Verdict | None) -> Rung:
    if verdict is None:
        return Rung(lever=lever, effects=(), verdict="open", boots=0, voids=0, seed_rule="", why="")
    return Rung(
        lever=lever,
        effects=tuple((one.metric, effect(one)) for one in verdict.effects),
        verdict=verdict.verdict,
        boots=verdict.boots,
        voids=verdict.voids,
        seed_rule=verdict.seed_rule,
        why=verdict.why,
    )


def _label(row: Row) -> str:
    if row.kind == "import":
        return "reported"
    return "simulated" if bodies.is_simulated(row.body) else ""


def _about(row: Row) -> str:  # noqa: PLR0911 - one return a kind reads as the table it is
    match row.kind:
        case "plan":
            plan = bodies.plan(row.body)
            return f"climb {plan.climb}: ladder {plan.ladder}, {len(plan.levers)} levers on {plan.recipe}"
        case "step":
            # Steps, boots and benches are nearly all rows, and were checked when they were read: no value is made of each.
            step = row.body
            why = f", {step['why']}" if step["why"] else ""
            return f"{step['boot']}: {step['stage']} {step['state']}{why}"
        case "boot":
            boot = row.body
            ended = "up" if boot["ok"] else f"{'void' if boot.get('void') else 'failed'}: {boot['why']}"
            return f"{boot['boot']} {_stack(get(boot, 'on', texts))}: {ended}"
        case "bench":
            bench = row.body
            voids = get(bench, "voids", texts)
            said = f"void: {voids[0]}" if voids else ", ".join(get(bench, "metrics", _figures))
            return f"{bench['boot']} {_stack(get(bench, 'on', texts))}: {said}"
        case "verdict":
            verdict = conclusions.verdict(row.body)
            return f"{verdict.lever}: {verdict.verdict} after {verdict.boots} boots"
        case "import":
            file = imported(row.body)
            return f"{len(file.rows)} rows of others: {file.source}"
        case "quality" if is_run(row.body):
            one = quality(row.body)
            role = "" if one.role == "run" else f" ({one.role})"
            return f"{one.quality}{role} {one.fingerprint.boot}: {one.verdict}: {one.why}"
        case "retract":
            return f"row {retractions.retracts(row.body)}: {row.body['why']}"
        case "note":
            end = conclusions.note(row.body)
            return f"climb {end.climb} ended with {_stack(end.stack)}" if end else _words(row)
        case _:
            return _words(row)


def _figures(metrics: Json) -> tuple[str, ...]:
    return each(metrics, lambda one: f"{mapping(one)['name']} {mapping(one)['value']:.5g}")


def _words(row: Row) -> str:
    """Return the text or reason that a row of a free form may carry."""
    return next((str(row.body[key]) for key in ("text", "why") if key in row.body), "")


def _stack(levers: Sequence[str]) -> str:
    return "+".join(levers) or "base"
