"""A healthy practice line from check to down: what a newcomer sees, with figures that follow the simulated model.

The tests use one line, in this order: boots are what takes the time.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from ledger.entry import Row
from ledger.journal import Journal

from . import short_sessions
from .conftest import Ended, Program

pytestmark = pytest.mark.cluster

RECORDED = Path(__file__).parents[1] / "tuner" / "agents" / "data" / "weka-subagents.json"


@dataclass(frozen=True, slots=True)
class Line:
    """The line, and how its check and its first boot ended."""

    call: Program
    checked: Ended
    booted: Ended

    def rows(self, kind: str) -> Sequence[Row]:
        """The rows of a kind in its ledger."""
        return [row for row in Journal(self.call.state / "ledger.jsonl").read().rows if row.kind == kind]


@pytest.fixture(scope="module")
def line(practice: Program) -> Line:
    """The line after its first boot."""
    checked = practice("check", "--rehearsal", "--scenario", "healthy", "--json")
    return Line(practice, checked, practice("boot", "--rehearsal", "--json"))


def test_a_healthy_line_boots_and_serves(line: Line) -> None:
    """Check passes; boot is ready; while it serves the GPU is left alone."""
    assert line.checked.code == 0, line.checked.err
    assert {one["verdict"] for one in line.checked.document["findings"]} == {"pass"}
    assert line.booted.code == 0, line.booted.err
    smoked = {one["name"]: one["fault"] for one in line.booted.document["smokes"]}
    assert smoked == dict.fromkeys(("count", "fact", "json", "prose", "tool", "burst"), "")
    seen = line.call("status", "--rehearsal", "--json")
    assert seen.code == 0
    assert [rank["state"] for rank in seen.document["ranks"]] == ["running"] * 4
    assert {rank["boot"] for rank in seen.document["ranks"]} == {line.booted.document["boot"]}

    while_serving = line.call("check", "--rehearsal", "--json")
    assert while_serving.code in {1, 3}, "memory is in use and the GPU probe was not run beside the rank"
    gemv = [one for one in while_serving.document["findings"] if one["gate"] == "gemv"]
    assert {one["verdict"] for one in gemv} == {"unknown"}


def test_a_bench_measures_and_its_row_holds_what_it_rests_on(line: Line) -> None:
    """Figures of the model; counters, brackets and every text by its hash; beside another client it is void."""
    measured = line.call("bench", "--rehearsal", "--json")
    assert measured.code == 0, measured.out
    figures = {one["name"]: one["value"] for one in measured.document["metrics"]}
    assert 40 < figures["c1_per_stream_tok_s"] < 70
    assert 1200 < figures["prefill_47k_tok_s"] < 1500

    assert _beside_another_client(line.call)

    sound, shared = (cast("dict[str, Any]", row.body) for row in line.rows("bench"))
    asked = sum(one["completion_tokens"] for one in sound["requests"])
    assert abs(sound["counters"]["made"] - asked) <= 4
    assert sound["counters"]["acceptance"] > 1
    assert len(sound["brackets"]) == 4
    assert all(node["sm_mhz"] and not node["unread"] for one in sound["brackets"] for node in one["nodes"])
    named = sound["requests"][0]["text_sha256"]
    kept = line.call("ledger", "text", named, "--json")
    assert kept.code == 0
    assert len(kept.document["text"]) == sound["requests"][0]["text_chars"]
    assert line.call("ledger", "text", sound["workload_digest"]).code == 0
    assert line.call("ledger", "text", "0" * 64).code == 2
    assert shared["voids"]


def _beside_another_client(practice: Program) -> bool:
    """Whether a bench says that another client was served too while it ran."""
    document = practice("status", "--rehearsal", "--json").document
    body = {
        "model": "deepseek-v4.1-flash",
        "prompt": "Tell a long story.",
        "max_tokens": 400,
        "ignore_eos": True,
    }
    running = practice.start("bench", "--rehearsal", "--json")
    with httpx.Client(timeout=60, trust_env=False) as other:
        while running.poll() is None:
            other.post(f"{document['url']}/v1/completions", json=body)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1, out + err
    return any("another client was served too" in one for one in json.loads(out)["voids"])


def test_sessions_of_agents_on_a_practice_line(line: Line, tmp_path: Path) -> None:
    """Levels of 1, 2 and 4 sessions give figures, the cached share grows from turn to turn, and each level is a row."""
    path, out = tmp_path / "short.yml", tmp_path / "out.json"
    path.write_text(short_sessions.text())
    before = len(line.rows("bench"))
    ended = line.call(
        *("bench", "--rehearsal", "--agents", str(path), "--sessions", "1,2,4", "-o", str(out), "--json")
    )
    assert ended.code == 0, ended.out + ended.err
    document = ended.document
    assert (document["words"], document["simulated"], document["idle_cap_s"]) == ("own", True, 10.0)
    assert [level["live"] for level in document["levels"]] == [1, 2, 4]
    for level in document["levels"]:
        shares = [place["cached_share"] for place in level["positions"]]
        assert shares == sorted(shares), shares
        assert shares[0] < 0.2
        assert shares[-1] > 0.5
        assert level["failed"] == 0
        assert level["session_s"]["mean"] > level["busy_s"]["mean"] + 14, "3, 10 (capped) and 2 s are waited"
        assert level["uncached_tokens"] + level["cached_tokens"] == level["prompt_tokens"]
        assert level["per_user"]["p90"] <= level["per_user"]["p50"]
    rate = [level["sessions_per_min"] for level in document["levels"]]
    speed = [level["per_user"]["mean"] for level in document["levels"]]
    assert rate[0] < rate[1] < rate[2]
    assert speed[0] > speed[2] > 20
    names = [cast("Any", row.body)["metrics"][0]["name"] for row in line.rows("bench")[before:]]
    assert names == [f"agents_s{live}_per_user_tok_s" for live in (1, 2, 4)]
    written = json.loads(out.read_text())["levels"]
    assert [len(level["exchanges"]) for level in written] == [8, 8, 16]


def test_a_recorded_session_is_replayed_as_filler(line: Line) -> None:
    """Forced lengths and shared blocks work on the line, and the answer says that the text means nothing."""
    arguments = ("--agents", str(RECORDED), "--sessions", "2", "--idle-cap", "1", "--json")
    ended = line.call("bench", "--rehearsal", *arguments)
    assert ended.code == 0, ended.out + ended.err
    assert ended.document["words"] == "filler"
    assert "acceptance and Engram lookups mean nothing" in ended.document["meaning"]
    (level,) = ended.document["levels"]
    assert level["calls"] == 20
    assert level["acceptance"] is None
    assert level["cached_share"] > 0.2


def test_down_leaves_nothing(line: Line) -> None:
    """The ranks' logs can be read until they are gone; every boot and bench is a row of its own."""
    logs = line.call("logs", "--rehearsal", "--tail", "3", "--json")
    assert [len(one["lines"]) for one in logs.document["logs"]] == [3, 3, 3, 3]
    assert line.call("down", "--rehearsal").code == 0
    after = line.call("status", "--rehearsal", "--json")
    assert (after.code, after.document["state"]) == (1, "down")
    again = line.call("down", "--rehearsal")
    assert again.code == 0, "taking down what is down is no fault"
    rows = Journal(line.call.state / "ledger.jsonl").read().rows
    assert [row.kind for row in rows if row.kind != "step"] == ["boot", *["bench"] * 6]
