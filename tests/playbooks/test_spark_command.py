"""playbooks/module_utils/spark_command.py: one command, always within its limits."""

import sys
import time
from pathlib import Path

from ansible.module_utils.spark_command import KEPT_BYTES, run


def test_output_and_exit_code_come_back() -> None:
    """Both streams and the exit code are kept apart."""
    outcome = run(["sh", "-c", "echo out; echo err >&2; exit 3"], 5)
    assert (outcome.rc, outcome.stdout, outcome.stderr) == (3, "out\n", "err\n")


def test_missing_tool_is_127_and_named() -> None:
    """A tool that does not exist is a result that names it."""
    outcome = run(["ibv_devinfo-not-here"], 5)
    assert (outcome.rc, outcome.stderr) == (127, "ibv_devinfo-not-here: No such file or directory")


def test_forbidden_tool_is_126(tmp_path: Path) -> None:
    """A file that may not be executed is told apart from a missing one."""
    tool = tmp_path / "tool"
    tool.write_text("", encoding="utf-8")
    assert run([str(tool)], 5).rc == 126


def test_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    """A hanging command, and the children it started, are gone at the limit; what it printed is kept."""
    mark = tmp_path / "alive"
    outcome = run(["sh", "-c", f"echo begun; (trap '' TERM; sleep 1; sleep 1; touch {mark}) & sleep 60"], 0.2)
    assert (outcome.rc, outcome.stdout, outcome.stderr) == (124, "begun\n", "timed out after 0.2 s")
    assert outcome.seconds < 1.5
    time.sleep(2.0)
    assert not mark.exists()


def test_escaped_grandchild_does_not_hold_us() -> None:
    """A daemon that left the group and keeps our pipe open costs a second, not for ever."""
    script = "import subprocess, sys; subprocess.Popen(['sleep', '4'], start_new_session=True); print('done')"
    outcome = run([sys.executable, "-c", script], 5)
    assert (outcome.rc, outcome.stdout) == (0, "done\n")
    assert outcome.seconds < 3


def test_flood_is_cut_and_marked() -> None:
    """Output beyond the limit is drained, dropped and counted."""
    outcome = run([sys.executable, "-c", f"print('x' * {KEPT_BYTES + 9}, end='')"], 5)
    assert outcome.rc == 0
    assert outcome.stdout.endswith("x\n[cut: 9 more bytes]\n")
    assert outcome.stdout.count("x") == KEPT_BYTES


def test_bytes_that_are_no_text_are_replaced() -> None:
    """A stream that is not UTF-8 is readable all the same."""
    assert run(["printf", "a\\377b"], 5).stdout == "a\ufffdb"


def test_stdin_is_closed_and_language_is_c() -> None:
    """A command neither waits for input nor speaks the user's language."""
    assert run(["sh", "-c", "cat; echo $LC_ALL"], 5).stdout == "C\n"
