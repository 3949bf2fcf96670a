"""Kept logs: the end of each rank's log of a boot that failed, in the state folder, since stopping removes the containers."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from ledger.steps import rows_of_last_boot
from sparkctl import edge
from sparkctl.cli.recorded import read
from sparkctl.cli.session import Session
from sparkctl.errors import FileFault
from sparkctl.line import Line

MOST_BOOTS = 20
"""Failed boots whose logs are kept; the oldest go first. Ours: some MiB at most."""


def keep(session: Session, boot: str, logs: Mapping[str, tuple[str, ...]]) -> None:
    """Write the logs of a boot, a file for each node; nothing when there are none.

    Raises:
        FileFault: the folder cannot be written.

    """
    if not logs:
        return
    own = folder(session, boot)
    try:
        own.mkdir(parents=True, exist_ok=True)
        for node, lines in logs.items():
            (own / f"{node}.log").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        # The names of boots begin with their time.
        for old in sorted(own.parent.iterdir())[:-MOST_BOOTS]:
            shutil.rmtree(old)
    except OSError as fault:
        raise FileFault(
            f"{own}: the ranks' logs cannot be kept: {fault.strerror}",
            hint="name another folder with --state",
        ) from fault


def last(session: Session, line: Line) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return the line's last boot and what was kept of each rank's log, by node; empty when it did not fail."""
    rows = rows_of_last_boot(read(session).rows, line.name, simulated=session.simulated)
    boot = str(rows[-1].body["boot"]) if rows else ""
    files = {node.name: folder(session, boot) / f"{node.name}.log" for node in line.nodes} if boot else {}
    return boot, {
        node: tuple(edge.read_text(path).splitlines()) for node, path in files.items() if path.is_file()
    }


def folder(session: Session, boot: str) -> Path:
    """Return where the logs of a boot lie, if they were kept."""
    return session.state / "logs" / boot
