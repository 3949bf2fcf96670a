"""`sparkctl tune --line A --line B`: two lines in processes of their own, the ledger they write, and how a climb goes on.

The boots are drawn (tests/cli/drawn_worker.py); everything else is the program.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.best import best
from ledger.history import climbs
from ledger.journal import Journal
from ledger.record import retraction
from sparkctl import cli
from sparkctl.cli import joint_climber
from sparkctl.cli.watch import Teller, Watch
from sparkctl.clock import system_clock
from sparkctl.console import Console
from sparkctl.live.event import Began, Judged, Warned

from .drawn_worker import DrawnWorker

LINES = ("--line", "A", "--line", "B")
Tuned = Callable[..., tuple[int, Any]]

MAIN = """
from sparkctl import cli
from sparkctl.cli import joint_climber
from tests.cli.drawn_worker import DrawnWorker
import signal, sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    joint_climber.Measurer = DrawnWorker
    sys.exit(cli.run(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with an inventory of two lines, and the drawn worker in place of the real one.

    Its addresses are the test's own: a line is held by the addresses of its nodes, over all processes of this machine.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKCTL_INVENTORY", raising=False)
    own = hashlib.sha256(str(tmp_path).encode()).digest()
    example = (Path(__file__).parents[2] / "inventory.example.yml").read_text(encoding="utf-8")
    example = example.replace("192.0.2.", f"198.{18 + own[0] % 2}.{own[1]}.")
    first = example[example.index("    line_a:") :]
    second = first.replace("line_a", "line_b").replace("spark-a", "spark-b").replace("10.10.", "10.20.")
    second = re.sub(r"(198\.\d+\.\d+)\.", r"\1.1", second)
    (tmp_path / "inventory.yml").write_text(f"{example}\n{second}", encoding="utf-8")
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(joint_climber, "Measurer", DrawnWorker)
    return tmp_path


@pytest.fixture
def tuned(folder: Path, capsys: pytest.CaptureFixture[str]) -> Tuned:
    """Climb and give exit code and answer."""

    def of(*arguments: str) -> tuple[int, Any]:
        given = ("tune", *arguments, "--state", str(folder / "state"), "--json")
        capsys.readouterr()
        code = cli.run(list(given))
        return code, json.loads(capsys.readouterr().out)

    return of


def verdicts(document: Any) -> dict[str, str]:
    """The verdict of each lever."""
    return {one["lever"]: one["verdict"] for one in document["verdicts"]}


def test_two_lines_climb_at_once_and_both_serve_what_won(tuned: Tuned, folder: Path) -> None:
    """Every row names its line; each line's rows are a climb of its own to whoever reads them; both confirm and serve the stack."""
    code, told = tuned(*LINES, "--seed", "5")
    assert code == 0, told
    assert (told["line"], told["end"]) == ("A+B", "done")
    found = verdicts(told)
    assert (found["nccl-channels"], found["async-scheduling"], found["b12x-mxfp8"]) == (
        "accept",
        "accept",
        "reject",
    )
    assert sorted(told["stack"]) == ["async-scheduling", "nccl-channels"]
    boots = [told["lines"][line]["boots"] for line in "AB"]
    assert sum(boots) == told["boots"]
    assert abs(boots[0] - boots[1]) <= 10
    for line in "AB":
        gain = told["lines"][line]["confirmed"]["gain"]["c6_agg_tok_s"]
        assert (gain["n_arm"], gain["estimate"]) == (4, pytest.approx(1.08 * 1.09, abs=0.03))
        serves = (folder / "state" / f"serves-{line}").read_text(encoding="utf-8")
        assert set(serves.split(" + ")) == set(told["stack"])
    by_line = next(one for one in told["verdicts"] if one["lever"] == "nccl-channels")["by_line"]
    assert by_line["A"]["c1_per_stream_tok_s"]["estimate"] == pytest.approx(1.08, abs=0.03)
    journal = Journal(folder / "state" / "ledger.jsonl")
    assert not journal.verify().breaks
    own = climbs(journal.read().rows)
    assert [one.line for one in own] == ["A", "B"]
    assert len({one.id for one in own}) == 1
    assert [len(one.trials) for one in own] == boots
    assert {one.climb.line: sorted(one.stack) for one in best(journal.read().rows)} == dict.fromkeys(
        "AB", sorted(told["stack"])
    )


@pytest.mark.full
def test_an_ended_climb_is_told_again_and_a_line_of_it_is_not_resumed_alone(
    tuned: Tuned, folder: Path
) -> None:
    """--resume after the end boots nothing; with one line it says what to name."""
    _, told = tuned(*LINES, "--boots", "14", "--seed", "5")
    _, told = tuned(*LINES, "--resume")
    assert told["end"] == "done"
    journal = Journal(folder / "state" / "ledger.jsonl")
    rows = len(journal.read().rows)
    _, again = tuned(*LINES, "--resume")
    assert (again["verdicts"], again["lines"]) == (told["verdicts"], told["lines"])
    assert len(journal.read().rows) == rows
    code, refused = tuned("--line", "A", "--resume")
    assert code == 2
    assert "--line A --line B --resume" in refused["error"]["hint"]


def test_a_line_whose_nodes_are_away_leaves_and_comes_back(tuned: Tuned, folder: Path) -> None:
    """The other goes on and the record says why; when that one is away too the climb pauses, and --resume goes on with both."""
    lost, last = (folder / "state" / f"off-{line}" for line in "BA")
    lost.write_text("3", encoding="utf-8")
    last.write_text("9", encoding="utf-8")
    code, told = tuned(*LINES, "--seed", "5")
    assert code == 3
    assert "did not answer" in told["error"]["message"]
    journal = Journal(folder / "state" / "ledger.jsonl")
    notes = [(row.line, row.body["away"]) for row in journal.read().rows if row.kind == "note"]
    assert notes == [
        (
            "B",
            "3 boots in a row were stopped before the launch, the last on spark-b2: the node did not answer in 30 s",
        )
    ]
    assert "the climb pauses" in told["error"]["hint"]
    assert [len(one.trials) for one in climbs(journal.read().rows)] == [8, 2]
    lost.unlink()
    last.unlink()
    code, ended = tuned(*LINES, "--resume")
    assert (code, ended["end"]) == (0, "done")
    assert ended["lines"]["B"]["boots"] > 10
    assert ended["lines"]["B"]["away"] is None


@pytest.mark.parametrize(
    ("signs", "code"),
    [
        pytest.param((signal.SIGINT,), 4, id="ctrl-c"),
        pytest.param((signal.SIGINT, signal.SIGINT), 3, id="ctrl-c-twice"),
        pytest.param((signal.SIGKILL,), -signal.SIGKILL, id="kill", marks=pytest.mark.full),
    ],
)
def test_an_interrupt_ends_both_workers(
    tuned: Tuned, folder: Path, signs: tuple[signal.Signals, ...], code: int
) -> None:
    """The first Ctrl-C lets two boots end, the second or a kill does not; no process is left, and what was finished is kept."""
    main = folder / "main.py"
    main.write_text(MAIN, encoding="utf-8")
    root = str(Path(__file__).parents[2])
    # One worker may be up long before the other: where boots are broken off, none may have ended by itself.
    (folder / "state" / "slow").write_text("5" if code == 4 else "100", encoding="utf-8")
    events = folder / "events.jsonl"
    argv = [
        sys.executable,
        str(main),
        "tune",
        *LINES,
        "--seed",
        "5",
        "--events",
        str(events),
        "--state",
        str(folder / "state"),
    ]
    running = subprocess.Popen(
        argv, env=os.environ | {"PYTHONPATH": root}, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until = time.monotonic() + 120
        while not (events.exists() and events.read_text().count('"booting"') == 2):
            assert time.monotonic() < until
            time.sleep(0.1)
        workers = children(running.pid)
        for sign in signs:
            running.send_signal(sign)
            time.sleep(0.5)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert len(workers) >= 2
    until = time.monotonic() + 10
    while (left := [pid for pid in workers if alive(pid)]) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []
    assert running.returncode == code, err
    assert ("Ctrl-C again stops now" in err) == (signal.SIGINT in signs)
    rows = Journal(folder / "state" / "ledger.jsonl").read().rows
    if code == 4:
        assert {row.line for row in rows if row.kind == "bench"} == {"A", "B"}
        assert not (folder / "state" / "serves-A").exists()
    (folder / "state" / "slow").unlink()
    code, ended = tuned(*LINES, "--resume")
    assert code == 0, ended
    assert ended["end"] == "done"


def test_events_name_the_line_and_a_verdict_is_handed_to_the_hook_once(tuned: Tuned, folder: Path) -> None:
    """Both lines in one file, each with its own boots and verdicts; the owner is not called twice for one verdict."""
    hook = folder / "hook"
    hook.write_text('#!/bin/sh\necho "$SPARKCTL_EVENT $SPARKCTL_LEVER" >> hooked\n', encoding="utf-8")
    hook.chmod(0o755)
    _, ended = tuned(*LINES, "--events", "events.jsonl", "--notify", "./hook")
    told = [json.loads(one) for one in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in "AB":
        own = [one for one in told if one["line"] == line]
        assert (own[0]["event"], own[-1]["event"], own[-1]["outcome"]) == ("began", "ended", "done")
        assert sum(one["event"] == "booted" for one in own) == ended["lines"][line]["boots"]
        assert {one["lever"]: one["verdict"] for one in own if one["event"] == "verdict"} == verdicts(ended)
    called = (folder / "hooked").read_text(encoding="utf-8").splitlines()
    assert sorted(called) == sorted(["done ", "done ", *(f"verdict {lever}" for lever in verdicts(ended))])


def test_a_verdict_over_both_lines_is_told_once_and_names_both(capsys: pytest.CaptureFixture[str]) -> None:
    """What both lines proved is not told as one's own; what one line does is."""
    watch = Watch(console=Console(), clock=system_clock(), stages=False)
    tellers = [Teller(watch=watch, line=line) for line in "AB"]
    for teller in tellers:
        teller.tell(Began(verb="tune", what="short", simulated=False))
    for teller in tellers:
        teller.tell(Judged(lever="nccl-channels", verdict="accept", why="a gain"))
    tellers[1].tell(Warned(text="leaves the climb"))
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0].startswith("lines A and B: accept")
    assert "line B: leaves the climb" in told[1]


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are Python's workers."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(one) for one in listed.read_text().split()] if listed.exists() else []


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_plan_over_two_lines_halves_the_hours(tuned: Tuned) -> None:
    """As many runs of blocks, half the time; the confirmation is made on each line."""
    _, one = tuned("--line", "A", "--plan")
    _, both = tuned(*LINES, "--plan")
    assert both["lines"] == ["A", "B"]
    assert both["runs"]["most"] == one["runs"]["most"]
    assert both["expected_boots"] > one["expected_boots"]
    assert both["hours"] < 0.65 * one["hours"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*LINES, "--design", "ladder"), "in blocks only"),
        ((*LINES, "--rule", "seed"), "in blocks only"),
        ((*LINES, "--calibrate"), "noise of one line"),
        (("--line", "A", "--line", "A"), "share spark-a0"),
        ((*LINES, "--line", "A"), "at most 2"),
        (("--line", "A", "--line", "C"), "line 'C' is not in"),
        ((*LINES, "--resume"), "no climb of line A"),
    ],
)
def test_what_two_lines_cannot_do_is_said(tuned: Tuned, arguments: tuple[str, ...], words: str) -> None:
    """Exit 2 with what to do instead, before anything is booted."""
    code, told = tuned(*arguments)
    assert code == 2
    assert words in told["error"]["message"]


@pytest.mark.full
def test_a_retracted_figure_is_measured_again_on_its_line(tuned: Tuned, folder: Path) -> None:
    """A bench of line B that is taken back leaves its boot without a figure, and line B makes another."""
    tuned(*LINES, "--boots", "12", "--seed", "5")
    journal = Journal(folder / "state" / "ledger.jsonl")
    bench = next(row for row in reversed(journal.read().rows) if (row.kind, row.line) == ("bench", "B"))
    body = retraction(bench.n, why="another client", simulated=False)
    journal.append("retract", "B", body, "2026-11-30T12:00:00Z")
    before = [len(one.trials) for one in climbs(journal.read().rows)]
    _, ended = tuned(*LINES, "--resume")
    assert ended["end"] == "done"
    after = [len(one.trials) for one in climbs(journal.read().rows)]
    assert after[1] > before[1]
    assert sum(after) == ended["boots"]
