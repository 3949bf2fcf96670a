"""The owner's hook: what it is told, and that nothing it does or leaves undone reaches the work."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkctl.live import hook
from sparkctl.live.event import Doing, Ended, Event, Judged, What
from sparkctl.live.hook import Hook

KEEPS = "import os, sys; open(sys.argv[1], 'a').write(os.environ['SPARKCTL_EVENT'] + ' ' + sys.stdin.read())"


def event(what: What) -> Event:
    """Something that happened on line A."""
    return Event(at="2026-11-30T11:00:00Z", s=5.0, line="A", what=what, run="climb-1")


@pytest.mark.parametrize(
    ("what", "occasion"),
    [
        (Ended(outcome="done", why="every lever has its verdict"), "done"),
        (Ended(outcome="failed", why="the base does not come up"), "failed"),
        (Ended(outcome="needs-you", why="spark-1: latched", hint="unplug it"), "needs-you"),
        (Judged(lever="graphs", verdict="accept", why="+5 %"), "verdict"),
    ],
)
def test_it_gets_the_event_on_stdin_and_its_kind_in_the_environment(
    tmp_path: Path, what: What, occasion: str
) -> None:
    """One call for each, with the document that --events writes."""
    kept, faults = tmp_path / "kept", list[str]()
    made = Hook(argv=(sys.executable, "-c", KEEPS, str(kept)), warn=faults.append)
    made.tell(event(Doing(text="loading")))
    made.tell(event(what))
    made.close()
    kind, _, told = kept.read_text(encoding="utf-8").partition(" ")
    assert (kind, faults) == (occasion, [])
    assert json.loads(told)["line"] == "A"
    assert json.loads(told)["run"] == "climb-1"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("/nowhere/hook",), "hook /nowhere/hook (done): cannot be started: No such file or directory"),
        ((sys.executable, "-c", "raise SystemExit('no mail\\ntoday')"), "exit 1: no mail today"),
        ((sys.executable, "-c", "import os; os.close(0); os.kill(os.getpid(), 9)"), "exit -9"),
    ],
)
def test_one_that_fails_is_told_of_in_one_line(argv: tuple[str, ...], says: str) -> None:
    """Its own words are in it, and the work is not touched."""
    faults = list[str]()
    made = Hook(argv=argv, warn=faults.append)
    made.tell(event(Ended(outcome="done", why="")))
    made.close()
    assert len(faults) == 1
    assert says in faults[0]
    assert "\n" not in faults[0]


def test_one_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """Within its limit, its children too, and telling never waits for it."""
    pid, faults = tmp_path / "pid", list[str]()
    made = Hook(argv=("/bin/sh", "-c", f"sleep 60 & echo $! > {pid}; wait"), warn=faults.append, limit_s=0.5)
    begin = time.monotonic()
    made.tell(event(Ended(outcome="done", why="")))
    assert time.monotonic() - begin < 0.2
    made.close()
    assert time.monotonic() - begin < 5
    assert faults == ["hook /bin/sh (done): did not end within 0.5 s and was ended"]
    ended(lambda: is_gone(int(pid.read_text())))


@pytest.mark.parametrize(("text", "fault"), [("mail 'me", "No closing quotation"), ("  ", "no command")])
def test_a_command_that_is_none_is_refused(text: str, fault: str) -> None:
    """Before any work begins."""
    with pytest.raises(ValueError, match=fault):
        hook.parse(text)


def is_gone(pid: int) -> bool:
    """Whether a process is gone, or only waits to be forgotten."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def ended(holds: Callable[[], bool]) -> None:
    """Wait a moment for something to hold."""
    until = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)
