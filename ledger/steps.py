"""Steps back to boots: how far the last boot of a line came, and how the last ones ended. Pure.

A boot writes a step before and after each stage and a boot row at its end. One that has steps and no boot row was broken off by
a crash: `boot --resume` goes on with it, `down` clears it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ledger import bodies
from ledger.entry import Row
from ledger.retractions import live

CLEARED = "down"
"""Stage of the step that `down` writes when it has cleared a boot that was broken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How far one boot came: its last step, when that was, and whether the boot came to an end."""

    boot: str
    recipe_digest: str
    stage: str
    state: bodies.StepState
    at: str
    steps: int
    is_ended: bool


def last_trace(rows: Sequence[Row], line: str, *, simulated: bool) -> Trace | None:
    """Return the last boot of a line that wrote steps; None when none did."""
    own = _own(rows, line, simulated=simulated)
    told = [(row, bodies.step(row.body)) for row in own if row.kind == "step"]
    if not told:
        return None
    last = told[-1][1]
    steps = [(row, one) for row, one in told if one.boot == last.boot]
    ended = any(row.kind == "boot" and bodies.boot(row.body).boot == last.boot for row in own)
    return Trace(
        boot=last.boot,
        recipe_digest=steps[0][1].recipe_digest,
        stage=last.stage,
        state=last.state,
        at=steps[-1][0].at,
        steps=len(steps),
        is_ended=ended or last.stage == CLEARED,
    )


def rows_of_last_boot(rows: Sequence[Row], line: str, *, simulated: bool) -> tuple[Row, ...]:
    """Return every row that the line's last boot wrote: its steps, and its end if it came to one."""
    own = [row for row in _own(rows, line, simulated=simulated) if row.kind in {"step", "boot"}]
    last = own[-1].body.get("boot") if own else None
    return tuple(row for row in own if row.body.get("boot") == last)


def failures_in_a_row(rows: Sequence[Row], line: str, *, simulated: bool) -> tuple[bodies.Boot, ...]:
    """Return the boots at the end of the line's record that failed one after the other, oldest first.

    Boots of a climb and void ones (a gate stopped them) are no part of it, neither as a failure nor as a success.
    """
    own = _own(rows, line, simulated=simulated)
    boots = [bodies.boot(row.body) for row in own if row.kind == "boot"]
    counted = [one for one in boots if one.climb is None and not one.void]
    failed: list[bodies.Boot] = []
    for one in reversed(counted):
        if one.ok:
            break
        failed.append(one)
    return tuple(reversed(failed))


def _own(rows: Sequence[Row], line: str, *, simulated: bool) -> list[Row]:
    return [row for row in live(rows) if row.line == line and bodies.is_simulated(row.body) == simulated]
