"""One controller at a time holds a line, whatever its environment says."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sparkctl import inventory
from sparkctl.cli import hold as holding
from sparkctl.errors import FileFault, Refused
from sparkctl.line import Line

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys
from pathlib import Path
from sparkctl import inventory
from sparkctl.cli.hold import hold
with hold(inventory.read(Path(sys.argv[1])).line("A")):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def line() -> Line:
    """Line A of the example inventory."""
    return inventory.read(ROOT / "inventory.example.yml").line("A")


def test_another_temporary_folder_is_no_other_lock(line: Line, tmp_path: Path) -> None:
    """Two shells of one user with different TMPDIR meet at the same lock, and it goes with its holder."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-c", HOLDER, str(ROOT / "inventory.example.yml")]
    other = subprocess.Popen(
        argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(Refused, match=str(other.pid)), holding.hold(line):
            pytest.fail("both hold it")
    finally:
        other.communicate(timeout=10)
    with holding.hold(line):
        assert holding.holder(line) == str(os.getpid())
    assert holding.holder(line) == ""


def test_a_link_in_the_locks_place_is_refused(line: Line) -> None:
    """What somebody else put there is neither followed nor written."""
    with holding.hold(line):
        pass
    lock = holding.lock_path(line)
    with tempfile.NamedTemporaryFile("w+") as victim:
        victim.write("precious")
        victim.flush()
        lock.unlink()
        lock.symlink_to(victim.name)
        try:
            with pytest.raises(FileFault), holding.hold(line):
                pytest.fail("the link was followed")
            assert Path(victim.name).read_text() == "precious"
        finally:
            lock.unlink()
