"""Usual: how long a boot of this line takes, from those on record, and where that is known from; for the end that a view foretells."""

from collections.abc import Sequence
from statistics import median

from ledger import calibrations
from ledger.bodies import is_simulated
from ledger.entry import Row
from ledger.fields import get, number
from ledger.retractions import live
from sparkctl.cli.recorded import read
from sparkctl.cli.session import Session
from tuner.outlook import BOOT_MINUTES

LAST = 10
"""Boots that count: what took long months ago says little. Ours."""


def boot_s(session: Session, line: str, *, benched: bool) -> tuple[float, str]:
    """Return the seconds of a boot, with its bench if `benched`, and the words for where they come from."""
    rows = live(read(session).rows)
    minutes = calibrations.minutes_a_boot(rows, line, simulated=session.simulated) if benched else None
    known = minutes * 60 if minutes else None if benched else _alone(rows, line, simulated=session.simulated)
    return (known, "as boots of this line took") if known else (60 * BOOT_MINUTES, "as others report it")


def _alone(rows: Sequence[Row], line: str, *, simulated: bool) -> float | None:
    """Return the median of the line's last boots that got ready, without what follows them."""
    own = [
        get(row.body, "seconds", number)
        for row in rows
        if row.kind == "boot"
        and row.line == line
        and is_simulated(row.body) is simulated
        and row.body.get("ok")
    ]
    return median(own[-LAST:]) if own else None
