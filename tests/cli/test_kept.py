"""Logs of failed boots: kept by boot and node, the oldest dropped, and given back for the line's last boot only."""

from pathlib import Path

import pytest

from ledger import record
from ledger.journal import Journal
from sparkctl import inventory
from sparkctl.cli import kept
from sparkctl.cli.session import Session
from sparkctl.console import Console
from sparkctl.errors import FileFault
from sparkctl.line import Line

ROOT = Path(__file__).resolve().parent.parent.parent
AT = "2026-11-29T12:00:00Z"


@pytest.fixture(scope="module")
def line() -> Line:
    """Line A of the example inventory."""
    return inventory.read(ROOT / "inventory.example.yml").line("A")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A call with a state folder of its own."""
    return Session(console=Console(), state=tmp_path / "state", inventory_path=tmp_path / "inventory.yml")


def _booted(session: Session, line: Line, boot: str, why: str) -> None:
    body = record.boot(
        boot=boot,
        climb=None,
        on=(),
        why=why,
        simulated=False,
        recipe_digest="0" * 64,
        seconds=1.0,
        findings=(),
    )
    Journal(session.ledger_path).append("boot", line.name, body, AT)


def test_the_last_boots_logs_come_back(session: Session, line: Line) -> None:
    """What was kept of the boot that failed last, and nothing of one that a later boot has overtaken."""
    assert kept.last(session, line) == ("", {})
    _booted(session, line, "boot-1", "spark-a2: it ended")
    kept.keep(session, "boot-1", {"spark-a2": ("first", "last ü")})
    assert kept.last(session, line) == ("boot-1", {"spark-a2": ("first", "last ü")})
    _booted(session, line, "boot-2", "")
    kept.keep(session, "boot-2", {})
    assert kept.last(session, line) == ("boot-2", {})


def test_only_the_newest_are_kept(session: Session) -> None:
    """The folder does not grow with every boot of a climb that fails."""
    names = [f"boot-20261129-{number:06d}-abcd" for number in range(kept.MOST_BOOTS + 3)]
    for name in names:
        kept.keep(session, name, {"spark-a1": ("text",)})
    left = sorted(path.name for path in kept.folder(session, names[0]).parent.iterdir())
    assert left == names[3:]


def test_a_folder_that_cannot_be_written_is_named(session: Session) -> None:
    """A full or foreign disk is told with the folder's name."""
    session.state.mkdir()
    (session.state / "logs").write_text("a file where a folder should be")
    with pytest.raises(FileFault, match="logs/boot-1: the ranks' logs cannot be kept"):
        kept.keep(session, "boot-1", {"spark-a1": ("text",)})
