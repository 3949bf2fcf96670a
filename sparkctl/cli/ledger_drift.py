"""`sparkctl ledger drift`: did a line become faster or slower by itself, when, and what was changed there?"""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ledger import drift as judged
from ledger.boots import Measured, measured
from ledger.drift import Change, Series
from ledger.epochs import changes as changed
from ledger.epochs import fingerprint
from ledger.journal import Journal
from sparkctl.cli.recorded import read
from sparkctl.cli.session import LineOption, Session, verb
from sparkctl.console import Column
from sparkctl.units import percent


@verb
def drift(
    session: Session,
    line: LineOption = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="One metric by name; default: every one in tok/s.")
    ] = None,
) -> int:
    """Say whether a line changed by itself: boots of one stack, asked the same, over time.

    Exit 1 when a change is proven, 4 when no stack has enough boots to tell.
    """
    boots = [one for one in measured(read(session, must_exist=True).rows) if line is None or one.line == line]
    series = judged.series(boots, metric)
    told = [one for one in series if len(one.boots) >= judged.LEAST_BOOTS]
    found = [(one, change, _why(session, change)) for one in told for change in judged.changes(one)]
    if found:
        session.console.table(
            (
                *(
                    Column(title=title, fold=True)
                    for title in ("line", "stack", "metric", "since", "change", "what changed there")
                ),
            ),
            [_row(*one) for one in found],
        )
    session.console.show(_summary(told, series, len(found)))
    session.console.answer(_answer(told, series, found))
    return 1 if found else 0 if told else 4


def _why(session: Session, change: Change) -> tuple[str, ...]:
    """Return what the rows of the two boots beside a change tell apart."""
    before, after = change.before, change.after
    rows = {row.n: row.body for row in Journal(session.ledger_path).whole({before.n, after.n})}
    told = list(changed(fingerprint(rows[before.n]), fingerprint(rows[after.n])))
    if before.recipe != after.recipe:
        told.append(f"recipe: {before.recipe[:12]} before, {after.recipe[:12]} after")
    return tuple(told)


def _row(one: Series, change: Change, why: tuple[str, ...]) -> tuple[str, ...]:
    found = change.comparison
    return (
        f"{one.line} (simulated)" if one.simulated else one.line,
        one.stack,
        one.metric,
        f"{change.after.at}, {change.after.boot}",
        f"{percent(found.estimate)} ({percent(found.low)} to {percent(found.high)})",
        "; ".join(why) or "nothing that was recorded",
    )


def _summary(told: Sequence[Series], series: Sequence[Series], count: int) -> str:
    if not told:
        most = max((len(one.boots) for one in series), default=0)
        return f"cannot tell: a stack needs {judged.LEAST_BOOTS} boots that were asked the same, the longest series has {most}"
    looked = f"{len(told)} series of {judged.LEAST_BOOTS} boots and more, {len(series) - len(told)} too short"
    return f"{count} changes proven in {looked}" if count else f"no change is shown in {looked}"


def _answer(
    told: Sequence[Series], series: Sequence[Series], found: Sequence[tuple[Series, Change, tuple[str, ...]]]
) -> dict[str, Any]:
    return {
        "ok": not found,
        "series": [
            {
                "line": one.line,
                "stack": one.stack,
                "metric": one.metric,
                "boots": len(one.boots),
                "simulated": one.simulated,
            }
            for one in told
        ],
        "too_short": len(series) - len(told),
        "changes": [
            {
                "line": one.line,
                "stack": one.stack,
                "metric": one.metric,
                "at": change.after.at,
                "before": _boot(change.before),
                "after": _boot(change.after),
                "ratio": change.comparison.estimate,
                "low": change.comparison.low,
                "high": change.comparison.high,
                "changed": list(why),
                "simulated": one.simulated,
            }
            for one, change, why in found
        ],
    }


def _boot(one: Measured) -> str:
    return one.boot
