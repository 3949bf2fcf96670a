"""Quality of a practice line over its boots: a floor that healthy boots stay under, and a lever whose damage only the scores tell."""

from typing import Any

import pytest

from .conftest import Program

pytestmark = [pytest.mark.cluster, pytest.mark.full]
"""Full, since it takes four boots: tests/engine/test_quality.py asks the same of real vLLM in less."""

DAMAGE = "env.VLLM_MARLIN_INPUT_DTYPE=int8"


def test_a_damaged_lever_exceeds_the_floor_that_its_line_stays_under(practice: Program) -> None:
    """Every task passes on all of them: only the scores tell, and the row and the climb can be read for it."""
    booted = practice("boot", "--rehearsal")
    assert booted.code == 0, booted.err
    kept = _ask(
        practice, "--keep", "--only", "probe", "--only", "tools", "--only", "code", "--only", "counting"
    )
    assert (kept["verdict"], kept["role"], kept["floor"].keys()) == ("kept", "reference", {"mix"})
    assert [(part["part"], part["asked"], part["wrong"]) for part in kept["parts"]] == [
        ("tools", 12, []),
        ("counting", 2, []),
        ("code", 5, []),
    ]
    early = practice("quality", "--rehearsal", "--only", "probe", "--json")
    assert (early.code, "no floor yet" in early.document["why"]) == (4, True)
    twice = practice("quality", "--rehearsal", "--only", "probe", "--floor", "--json")
    assert (twice.code, "part of the floor already" in twice.document["error"]["message"]) == (1, True)

    _boot(practice)
    floor = _ask(practice, "--floor", "--only", "probe")["floor"]
    assert (
        floor["mix"]["kl_nats"]["high"]
        < floor["restart"]["kl_nats"]["low"]
        < floor["both"]["kl_nats"]["high"]
    )

    _boot(practice)
    healthy = _ask(practice, "--only", "probe")
    assert (healthy["verdict"], healthy["floor_boots"]) == ("passes", 2), healthy["why"]

    _boot(practice, "--set", DAMAGE)
    foreign = practice("quality", "--rehearsal", "--only", "probe", "--floor", "--json")
    assert (foreign.code, "another recipe" in foreign.document["error"]["message"]) == (1, True)
    written = str(practice.state / "q.json")
    damaged = practice(
        *("quality", "--rehearsal", "--only", "probe", "--only", "tools", "--json", "-o", written)
    )
    assert (damaged.code, damaged.document["verdict"]) == (1, "fails")
    assert {one["outcome"] for one in damaged.document["probe"]["judged"]} == {"exceeds"}
    assert damaged.document["parts"][0]["wrong"] == []
    of_file = practice("quality", "--rehearsal", "--only", "probe", "--json", "--reference", written)
    assert (of_file.code, "no floor yet" in of_file.document["why"]) == (4, True)
    whole = next(one for one in of_file.document["texts"] if not one["text"])
    assert whole["measures"]["kl_nats"]["mean"] == 0, "the same boot scores the same texts alike"

    listed = practice("ledger", "list", "--json").document["rows"]
    told = [one["about"] for one in listed if one["kind"] == "quality"]
    assert "(reference)" in told[0]
    assert practice("ledger", "verify").code == 0


def _boot(practice: Program, *more: str) -> None:
    """Boot again: the ranks that ran are replaced."""
    before = practice("status", "--rehearsal", "--json").document
    booted = practice("boot", "--rehearsal", *more, "--json")
    assert booted.code == 0, booted.err
    assert booted.document["boot"] not in {rank["boot"] for rank in before["ranks"]}


def _ask(practice: Program, *more: str) -> Any:
    ended = practice("quality", "--rehearsal", *more, "--json")
    assert ended.code == 0, ended.out + ended.err
    return ended.document
