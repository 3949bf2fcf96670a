"""Programs that a model may write: right ones, wrong ones, and those that want out."""

import os
from pathlib import Path

import pytest

from tuner.quality import sandbox


def test_a_right_program_passes() -> None:
    """Its asserts hold, and what kept it in is told."""
    found = sandbox.run("def add(a, b):\n    return a + b\n\nassert add(2, 3) == 5\n")
    assert found.fault == ""
    assert {"cpu", "memory", "files", "processes"} <= set(found.held)


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        ("assert 1 == 2, 'one is not two'", "AssertionError: one is not two"),
        ("def f(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import os; os._exit(0)", "ended before its asserts were through"),
        ("class E(Exception):\n    def __str__(self): raise E\nraise E", "ended before its asserts"),
        ("x = [0] * 10**10", "MemoryError"),
        ("open('big', 'w').write('a' * 5_000_000)", "File too large"),
        ("import sys\nsys.stderr.write('a' * 5_000_000)", "ended before its asserts"),
        ("import os\nwhile True: os.fork()", "Resource temporarily unavailable"),
        ("", ""),
        ("print('hello')", ""),
        ("s = 'größe \\U0001f600'; assert len(s) == 7", ""),
        (
            "from decimal import Decimal; from datetime import datetime; assert datetime.strptime('2', '%d')",
            "",
        ),
    ],
)
def test_how_a_program_ends(program: str, fault: str) -> None:
    """The fault is the program's own words, or that it never got to the end of its asserts."""
    found = sandbox.run(program).fault
    assert fault in found if fault else found == ""


def test_a_program_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sleeps by the wall clock, one that computes by its CPU time; nothing of it is left."""
    soon = sandbox._CHILD.replace(f"RLIMIT_CPU, {sandbox.CPU_S})", "RLIMIT_CPU, 1)")
    assert soon != sandbox._CHILD
    monkeypatch.setattr(sandbox, "_CHILD", soon)
    assert "ended before its asserts" in sandbox.run("while True: pass").fault
    monkeypatch.setattr(sandbox, "WALL_S", 1.0)
    mark = f"sleeper-{os.getpid()}"
    assert "still ran after 1 s" in sandbox.run(f"import time\nmark = {mark!r}\ntime.sleep(60)").fault
    assert not _running("import os, resource, sys")


def test_it_sees_no_environment_and_an_empty_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets in the environment stay here; what it writes is gone with it."""
    monkeypatch.setenv("SPARKCTL_TEST_SECRET", "x")
    program = "import os\nassert 'SPARKCTL_TEST_SECRET' not in os.environ\nassert os.listdir('.') == []\nopen('a', 'w').close()"
    assert sandbox.run(program).fault == ""


@pytest.mark.skipif(not sandbox.walls(), reason="unshare gives no network namespace here")
def test_it_has_no_network_where_the_kernel_allows_that() -> None:
    """Only a loopback that is down."""
    program = "assert open('/proc/net/dev').read().count(':') == 1"
    found = sandbox.run(program)
    assert (found.fault, "network" in found.held) == ("", True)


@pytest.mark.skipif(os.getuid() != 0, reason="under another user it stays that user")
def test_under_root_it_is_nobody() -> None:
    """What only root may read or write it may not."""
    assert sandbox.run("import os\nassert os.getuid() == 65534").fault == ""
    assert "PermissionError" in sandbox.run("open('/etc/shadow')").fault


def _running(part: str) -> list[str]:
    """Return the command lines of children of this process that hold a text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            line = (folder / "cmdline").read_text()
        except OSError:
            continue
        if parent == str(os.getpid()) and part in line:
            found.append(line)
    return found
