"""The study: shards and resuming give the same figures as one run, and rows of different studies never mix."""

import json
import subprocess
import sys
from pathlib import Path

STUDY = Path(__file__).parents[3] / "benchmarks" / "tuner_study.py"


def study(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the study on a few ladders of the design seeds."""
    return subprocess.run(
        [sys.executable, str(STUDY), "--seeds", "design", "--regime", "disciplined", "--json", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_shards_add_up_to_the_whole(tmp_path: Path) -> None:
    """Two shards into one file, then the whole, which finds nothing left to do."""
    rows = str(tmp_path / "rows.jsonl")
    counts = ("--ladders", "4", "--null-ladders", "2")
    for shard in ("1/2", "2/2"):
        assert study(*counts, "--shard", shard, "--resume", rows).returncode == 0
    kept = Path(rows).read_text()
    assert len(kept.splitlines()) == 6
    whole = json.loads(study(*counts, "--resume", rows).stdout)
    assert Path(rows).read_text() == kept
    fresh = json.loads(study(*counts).stdout)
    assert whole["simulated"] is True
    assert whole["regimes"] == fresh["regimes"]


def test_rows_of_another_study_are_refused(tmp_path: Path) -> None:
    """Ageing lines are not mixed with plain ones."""
    rows = str(tmp_path / "rows.jsonl")
    assert study("--ladders", "1", "--resume", rows).returncode == 0
    other = study("--ladders", "1", "--extension", "ageing", "--resume", rows)
    assert other.returncode == 2
    assert "rows of another study" in other.stderr


def test_rivals_climb_the_same_ladders() -> None:
    """Every rival is there with its figures, and fixed pairs take the boots that they say."""
    shown = json.loads(study("--ladders", "2", "--rivals").stdout)["regimes"]["disciplined"]["methods"]
    assert {
        "factorial",
        "one boot a lever (the seeds' rule)",
        "means of 4",
        "random search, 54",
    } <= shown.keys()
    assert shown["fixed pairs, 8"]["boots"]["mean"] >= 2 * 8 * 12
    assert shown["one boot a lever (the seeds' rule)"]["boots"]["mean"] < 20


def test_a_wrong_shard_is_told() -> None:
    """Exit 2 and what was wanted."""
    wrong = study("--shard", "3/2")
    assert wrong.returncode == 2
    assert "wanted I/N" in wrong.stderr
