"""A healthy practice line from check to down: what a newcomer sees, with figures that follow the simulated model."""

import json
from typing import Any, cast

import httpx
import pytest

from ledger.journal import Journal

from .conftest import Program

pytestmark = pytest.mark.cluster


def test_a_healthy_line_boots_serves_and_goes_down(practice: Program) -> None:
    """Check passes; boot is ready; a second boot replaces it; bench measures; down leaves nothing."""
    journal = Journal(practice.state / "ledger.jsonl")
    before = len(journal.read().rows)
    checked = practice("check", "--rehearsal", "--scenario", "healthy", "--json")
    assert checked.code == 0, checked.err
    assert {one["verdict"] for one in checked.document["findings"]} == {"pass"}

    first = practice("boot", "--rehearsal", "--json")
    assert first.code == 0, first.err
    smoked = {one["name"]: one["fault"] for one in first.document["smokes"]}
    assert smoked == dict.fromkeys(("count", "fact", "json", "prose", "tool", "burst"), "")
    seen = practice("status", "--rehearsal", "--json")
    assert seen.code == 0
    assert [rank["state"] for rank in seen.document["ranks"]] == ["running"] * 4
    assert {rank["boot"] for rank in seen.document["ranks"]} == {first.document["boot"]}

    while_serving = practice("check", "--rehearsal", "--json")
    assert while_serving.code in {1, 3}, "memory is in use and the GPU probe was not run beside the rank"
    gemv = [one for one in while_serving.document["findings"] if one["gate"] == "gemv"]
    assert {one["verdict"] for one in gemv} == {"unknown"}

    second = practice("boot", "--rehearsal", "--json")
    assert second.code == 0, second.err
    assert second.document["boot"] != first.document["boot"]

    measured = practice("bench", "--rehearsal", "--json")
    assert measured.code == 0, measured.out
    figures = {one["name"]: one["value"] for one in measured.document["metrics"]}
    assert 40 < figures["c1_per_stream_tok_s"] < 70
    assert 1200 < figures["prefill_47k_tok_s"] < 1500

    assert _beside_another_client(practice)

    logs = practice("logs", "--rehearsal", "--tail", "3", "--json")
    assert [len(one["lines"]) for one in logs.document["logs"]] == [3, 3, 3, 3]

    assert practice("down", "--rehearsal").code == 0
    after = practice("status", "--rehearsal", "--json")
    assert (after.code, after.document["state"]) == (1, "down")
    again = practice("down", "--rehearsal")
    assert again.code == 0, "taking down what is down is no fault"
    kinds = [row.kind for row in journal.read().rows[before:] if row.kind != "step"]
    assert kinds == ["boot", "boot", "bench", "bench"]
    benches = [row.body for row in journal.read().rows[before:] if row.kind == "bench"]
    sound, shared = (cast("dict[str, Any]", one) for one in benches)
    asked = sum(one["completion_tokens"] for one in sound["requests"])
    assert abs(sound["counters"]["made"] - asked) <= 4
    assert sound["counters"]["acceptance"] > 1
    assert len(sound["brackets"]) == 4
    assert all(node["sm_mhz"] and not node["unread"] for one in sound["brackets"] for node in one["nodes"])
    named = sound["requests"][0]["text_sha256"]
    kept = practice("ledger", "text", named, "--json")
    assert kept.code == 0
    assert len(kept.document["text"]) == sound["requests"][0]["text_chars"]
    assert practice("ledger", "text", sound["workload_digest"]).code == 0
    assert practice("ledger", "text", "0" * 64).code == 2
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
