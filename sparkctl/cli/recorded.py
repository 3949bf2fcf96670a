"""Recorded: the ledger of this state folder, as a verb reads it."""

from ledger.journal import Journal, Ledger
from sparkctl.cli.session import Session
from sparkctl.errors import FileFault


def read(session: Session, *, must_exist: bool = False) -> Ledger:
    """Read the ledger of this state folder without the bulk of its rows, and tell its warnings; none is an empty one unless it must exist."""
    if must_exist:
        demand(session)
    found = Journal(session.ledger_path).glance()
    for warning in found.warnings:
        session.console.warn(warning)
    return found


def demand(session: Session) -> None:
    """Refuse to speak of a ledger that is not there: an empty answer would pass for a true one."""
    if not session.ledger_path.exists():
        raise FileFault(
            f"{session.ledger_path}: there is no ledger",
            hint="name the state folder that has one with --state; boot, bench, tune and ledger import begin one",
        )
