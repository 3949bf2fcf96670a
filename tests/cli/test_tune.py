"""A climb over real SSH, killed in the middle and resumed."""

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ledger.entry import Row
from ledger.history import climbs
from ledger.journal import Journal

from .conftest import Program

pytestmark = pytest.mark.cluster

LADDER = str(Path(__file__).parent / "ladders" / "short.yml")
PRIMARY = ("c1_per_stream_tok_s", "c6_agg_tok_s")
TUNE = ("tune", "--line", "A", "--rehearsal", "--ladder", LADDER, "--json")
RULES = {"proof": ("--design", "ladder"), "seed": ("--rule", "seed")}
"""By proof a lever takes four boots or more, and one by the seeds' rule, which is enough to be killed in."""


@pytest.mark.parametrize("rule", [pytest.param("proof", marks=pytest.mark.full), "seed"])
def test_a_killed_climb_is_resumed_to_the_same_verdicts(practice: Program, rule: str) -> None:
    """SIGKILL after the first bench; --resume repeats no finished boot and ends with every lever decided."""
    journal = Journal(practice.state / "ledger.jsonl")
    before = journal.read().rows
    running = practice.start(*TUNE, *RULES[rule], "--scenario", "calm")
    until = time.monotonic() + 150
    while not benches(journal.read().rows[len(before) :]) and time.monotonic() < until:
        time.sleep(0.2)
    time.sleep(2)  # somewhere inside the second boot
    running.send_signal(signal.SIGKILL)
    running.communicate()
    kept = journal.read().rows
    assert benches(kept[len(before) :]) == 1

    ended = practice(*TUNE, "--resume", limit_s=400)
    assert ended.code == 0, ended.err
    document = ended.document
    assert [(one["lever"], one["verdict"]) for one in document["verdicts"]] == [
        ("b12x-mxfp8", "reject"),
        ("nccl-channels", "accept"),
    ]
    assert document["stack"] == ["nccl-channels"]
    assert document["simulated"] is True
    metrics = document["verdicts"][1]["metrics"]
    least, reached = ("low", 1.0) if rule == "proof" else ("estimate", 1.03)
    assert any(reached < metrics[name][least] <= metrics[name]["estimate"] for name in PRIMARY), metrics

    rows = journal.read().rows
    assert rows[: len(kept)] == kept
    climb = climbs(rows)[-1]
    assert climb.ended is not None
    assert len({trial.boot for trial in climb.trials}) == len(climb.trials) == document["boots"]
    assert practice("ledger", "verify").code == 0

    again = practice(*TUNE, "--resume")
    assert again.code == 0
    assert again.document["verdicts"] == document["verdicts"], (
        "a climb that has ended is told again, not booted again"
    )
    assert len(journal.read().rows) == len(rows)


def benches(rows: Sequence[Row]) -> int:
    """How many boots were measured."""
    return sum(row.kind == "bench" for row in rows)


@pytest.mark.full
def test_the_demo_ladder_ends_alike_with_and_without_a_kill(tmp_path: Path) -> None:
    """The whole demo ladder on equal seeds: undisturbed, and killed after the fifth bench and resumed."""
    tune = ("tune", "--line", "A", "--rehearsal", "--json")
    undisturbed, disturbed = Program(tmp_path / "undisturbed"), Program(tmp_path / "disturbed")
    try:
        whole = undisturbed(*tune, "--design", "ladder", "--scenario", "calm", limit_s=900)
        assert whole.code == 0, whole.err
        assert undisturbed("rehearse", "down").code == 0

        running = disturbed.start(*tune, "--design", "ladder", "--scenario", "calm")
        journal = Journal(disturbed.state / "ledger.jsonl")
        until = time.monotonic() + 300
        while benches(journal.read().rows) < 5 and time.monotonic() < until:
            time.sleep(0.2)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        resumed = disturbed(*tune, "--resume", limit_s=900)
        assert resumed.code == 0, resumed.err
        assert disturbed("ledger", "verify").code == 0
    finally:
        for program in (undisturbed, disturbed):
            program("rehearse", "down")
    verdicts = [
        [(one["lever"], one["verdict"]) for one in ended.document["verdicts"]] for ended in (whole, resumed)
    ]
    assert verdicts[0] == verdicts[1]
    assert [verdict for _, verdict in verdicts[0]] == ["accept", "accept", "reject", "reject"]
    assert whole.document["stack"] == resumed.document["stack"] == ["nccl-channels", "async-scheduling"]


def test_the_report_is_rendered_from_that_climb(practice: Program, tmp_path: Path) -> None:
    """The block names the stack, is labelled simulated, and is stale only until it is written."""
    readme = tmp_path / "README.md"
    readme.write_text("# x\n<!-- sparkctl:best:start -->\n<!-- sparkctl:best:end -->\ny\n")
    assert practice("ledger", "import").code == 0
    assert practice("report", "--readme", str(readme), "--check").code == 1
    assert practice("report", "--readme", str(readme)).code == 0
    text = readme.read_text()
    assert "env.NCCL_MAX_NCHANNELS" in text
    assert "simulated" in text
    assert "reported" in text
    assert text.startswith("# x\n")
    assert text.endswith("\ny\n")
    assert practice("report", "--readme", str(readme), "--check").code == 0


def test_another_ladder_cannot_be_resumed(practice: Program, tmp_path: Path) -> None:
    """A climb goes on only with the files it began with."""
    changed = tmp_path / "ladder.yml"
    changed.write_text(Path(LADDER).read_text().replace("most: 4", "most: 5"))
    ended = practice("tune", "--rehearsal", "--ladder", str(changed), "--resume")
    assert ended.code == 2
    assert "began with another ladder" in ended.err
