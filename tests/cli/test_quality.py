"""The quality battery on a practice line: a floor from restarts, a run that stays under it, and a lever that damages what is said."""

import json
from typing import Any

import pytest

from .conftest import Program

DAMAGE = "env.VLLM_MARLIN_INPUT_DTYPE=int8"


@pytest.mark.cluster
def test_a_damaged_lever_exceeds_the_floor_that_its_line_stays_under(practice: Program) -> None:
    """Every task passes on all of them: only the scores tell, and the row and the climb can be read for it."""
    assert _boot(practice) == 0
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

    assert _boot(practice) == 0
    floor = _ask(practice, "--floor", "--only", "probe")["floor"]
    assert (
        floor["mix"]["kl_nats"]["high"]
        < floor["restart"]["kl_nats"]["low"]
        < floor["both"]["kl_nats"]["high"]
    )

    assert _boot(practice) == 0
    healthy = _ask(practice, "--only", "probe")
    assert (healthy["verdict"], healthy["floor_boots"]) == ("passes", 2), healthy["why"]

    assert _boot(practice, "--set", DAMAGE) == 0
    foreign = practice("quality", "--rehearsal", "--only", "probe", "--floor", "--json")
    assert (foreign.code, "another recipe" in foreign.document["error"]["message"]) == (1, True)
    damaged = practice(
        "quality",
        "--rehearsal",
        "--only",
        "probe",
        "--only",
        "tools",
        "--json",
        "-o",
        str(practice.state / "q.json"),
    )
    assert (damaged.code, damaged.document["verdict"]) == (1, "fails")
    assert {one["outcome"] for one in damaged.document["probe"]["judged"]} == {"exceeds"}
    assert damaged.document["parts"][0]["wrong"] == []
    of_file = practice(
        "quality", "--rehearsal", "--only", "probe", "--json", "--reference", str(practice.state / "q.json")
    )
    assert (of_file.code, "no floor yet" in of_file.document["why"]) == (4, True)
    whole = next(one for one in of_file.document["texts"] if not one["text"])
    assert whole["measures"]["kl_nats"]["mean"] == 0, "the same boot scores the same texts alike"

    listed = practice("ledger", "list", "--json").document["rows"]
    told = [one["about"] for one in listed if one["kind"] == "quality"]
    assert "(reference)" in told[0]
    assert practice("ledger", "verify").code == 0


def _boot(practice: Program, *more: str) -> int:
    return practice("boot", "--rehearsal", *more, "--json").code


def _ask(practice: Program, *more: str) -> Any:
    ended = practice("quality", "--rehearsal", *more, "--json")
    assert ended.code == 0, ended.out + ended.err
    return ended.document


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--keep", "--floor"], 2, "exclude each other"),
        (["--url", "http://127.0.0.1:9"], 2, "--url goes with --model"),
        (["--url", "http://127.0.0.1:9", "--model", "m"], 3, "no answer"),
        (["--url", "127.0.0.1:9", "--model", "m"], 2, "not an address"),
        (["--battery", "none"], 2, "battery 'none' is not one that ships with sparkctl: budget, standard"),
        (["--only", "poetry"], 2, "no such part"),
        (["--only", "tools", "--keep"], 2, "add --only probe"),
        (["--battery", "budget", "--keep"], 2, "battery budget needs neither"),
        (["--battery", "budget", "--only", "tools"], 2, "battery budget has no part tools"),
        (["--evalplus", "no.jsonl"], 2, "no.jsonl: cannot be read"),
        (["--ladder", "none"], 2, "ladder 'none' is not one"),
        (["--url", "http://127.0.0.1:9", "--model", "m", "--reference", "7"], 2, "row 7 holds no scores"),
        (
            ["--url", "http://127.0.0.1:9", "--model", "m", "--reference", "no.json"],
            2,
            "no.json: there is no such file",
        ),
        (["--url", "http://127.0.0.1:9", "--model", "m", "--floor"], 1, "no reference yet"),
        (["--scenario", "healthy"], 2, "add --rehearsal"),
    ],
)
def test_what_is_asked_wrongly_is_said_before_anything_is_sent(
    program: Program, arguments: list[str], code: int, said: str
) -> None:
    """One message with a remedy, and no row in the ledger."""
    ended = program("quality", *arguments, "--json")
    assert ended.code == code
    error = ended.document["error"]
    assert said in error["message"] + error["hint"]
    assert not (program.state / "ledger.jsonl").exists()


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"run": {}, "scores": null}', '{"run": 5, "scores": []}', json.dumps({"schema": 1})]
)
def test_a_file_that_is_no_run_is_no_reference(program: Program, text: str) -> None:
    """It is named, with what would be one."""
    path = program.state / "other.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    ended = program(
        "quality", "--url", "http://127.0.0.1:9", "--model", "m", "--reference", str(path), "--json"
    )
    assert ended.code == 2
    assert "not a quality run" in ended.document["error"]["message"]
