"""`tune --calibrate` over real SSH, and a climb whose machines change between two of its boots."""

import json
import signal
import time
from pathlib import Path

import pytest

from ledger.journal import Journal

from .conftest import Program

pytestmark = [pytest.mark.cluster, pytest.mark.full]

LADDER = str(Path(__file__).parent / "ladders" / "short.yml")
TUNE = ("tune", "--line", "A", "--rehearsal", "--ladder", LADDER, "--json")


def test_a_calibration_boots_the_base_and_keeps_two_sound_passes(practice: Program) -> None:
    """One boot, benched twice under tags of their own: both count, and neither finds its prompts in the cache of the other."""
    ended = practice(*TUNE, "--calibrate", "--boots", "1", "--scenario", "calm", limit_s=400)
    assert ended.code == 4, ended.err  # one boot is too few to plan by
    assert ended.document["noise"]["boots"] == 0
    (row,) = [
        one for one in Journal(practice.state / "ledger.jsonl").read().rows if one.kind == "calibration"
    ]
    assert (row.line, row.body["simulated"], row.body["voids"]) == ("A", True, [])
    passes = [{one["name"]: one["value"] for one in taken} for taken in row.body["passes"]]
    assert len(passes) == 2
    for name in ("c1_per_stream_tok_s", "c6_agg_tok_s", "prefill_47k_tok_s"):
        assert passes[1][name] == pytest.approx(passes[0][name], rel=0.1)
    assert ended.document["minutes_a_boot"] > 1


def test_a_climb_pauses_where_the_kernel_changed_and_goes_on_when_it_is_back(practice: Program) -> None:
    """Every node boots another kernel after the first bench: exit 1 with both versions; with the old one back --resume boots on."""
    journal = Journal(practice.state / "ledger.jsonl")
    running = practice.start(*TUNE, "--design", "ladder")
    try:
        until = time.monotonic() + 300
        while not benches(journal) and running.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        kernel = patched(practice, "6.17.0-1041-nvidia")
        _, told = running.communicate(timeout=300)
    finally:
        running.kill()
    assert running.returncode == 1, told
    assert "the line changed since climb" in told
    assert f"kernel: {kernel} before, 6.17.0-1041-nvidia after" in told
    assert "tune --resume" in told
    assert benches(journal) == 1

    again = practice(*TUNE, "--resume", limit_s=300)
    assert again.code == 1, "the kernel is still another"
    assert benches(journal) == 1

    patched(practice, kernel)
    resumed = practice.start(*TUNE, "--resume")
    try:
        until = time.monotonic() + 300
        while benches(journal) < 2 and resumed.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
    finally:
        resumed.send_signal(signal.SIGINT)
        resumed.communicate(timeout=120)
    assert benches(journal) == 2
    assert practice("ledger", "verify").code == 0


def benches(journal: Journal) -> int:
    """How many boots of a climb were measured."""
    if not journal.path.exists():
        return 0
    return sum(row.kind == "bench" for row in journal.read().rows)


def patched(practice: Program, kernel: str) -> str:
    """Have every node show another kernel, as after an upgrade and a reboot; return the one before."""
    before = ""
    for path in sorted(practice.state.glob("rehearsal/spark-a*/state.json")):
        raw = json.loads(path.read_text(encoding="utf-8"))
        before, raw["traits"]["kernel"] = raw["traits"]["kernel"], kernel
        path.write_text(json.dumps(raw), encoding="utf-8")
    assert before, "no node was found"
    return before
