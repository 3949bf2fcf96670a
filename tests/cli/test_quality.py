"""`sparkctl quality`: what is asked wrongly is said before anything is sent. What it finds is tested on the healthy line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Ended


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
    called: Callable[..., Ended], tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    """One message with a remedy, and no row in the ledger."""
    ended = called("quality", *arguments, "--json")
    assert ended.code == code
    error = ended.document["error"]
    assert said in error["message"] + error["hint"]
    assert not (tmp_path / "ledger.jsonl").exists()


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"run": {}, "scores": null}', '{"run": 5, "scores": []}', json.dumps({"schema": 1})]
)
def test_a_file_that_is_no_run_is_no_reference(
    called: Callable[..., Ended], tmp_path: Path, text: str
) -> None:
    """It is named, with what would be one."""
    path = tmp_path / "other.json"
    path.write_text(text)
    ended = called(
        "quality", "--url", "http://127.0.0.1:9", "--model", "m", "--reference", str(path), "--json"
    )
    assert ended.code == 2
    assert "not a quality run" in ended.document["error"]["message"]
