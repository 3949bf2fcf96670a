"""Events as JSON lines: to a file or a descriptor, each at once, until nobody can take them any more."""

import json
import os
from pathlib import Path

import pytest

from sparkctl.live.event import Booted, Event
from sparkctl.live.stream import Stream

EVENT = Event(
    at="2026-11-30T11:00:00Z",
    s=5.04,
    line="A",
    what=Booted(
        boot="b", number=1, on=("graphs",), outcome="measured", figures=(("tok_s", 56.5),), seconds=690.0
    ),
)
DOCUMENT = {
    "schema": 1,
    "event": "booted",
    "at": "2026-11-30T11:00:00Z",
    "s": 5.0,
    "line": "A",
    "run": "",
    "boot": "b",
    "number": 1,
    "on": ["graphs"],
    "outcome": "measured",
    "why": "",
    "figures": {"tok_s": 56.5},
    "seconds": 690.0,
}


def test_a_file_is_added_to_and_can_be_followed(tmp_path: Path) -> None:
    """Each event is there when it was told, behind those of an earlier call."""
    path = tmp_path / "events.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    stream = Stream(name=str(path), warn=pytest.fail)
    stream.open()
    stream.tell(EVENT)
    assert [json.loads(one) for one in path.read_text().splitlines()] == [{}, DOCUMENT]
    stream.close()


def test_a_descriptor_is_written_to_and_left_open() -> None:
    """It belongs to whoever opened it."""
    reading, writing = os.pipe()
    stream = Stream(name=f"fd:{writing}", warn=pytest.fail)
    stream.open()
    stream.tell(EVENT)
    stream.close()
    os.write(writing, b"still open\n")
    os.close(writing)
    with os.fdopen(reading) as told:
        lines = told.read().splitlines()
    assert (json.loads(lines[0]), lines[1]) == (DOCUMENT, "still open")


def test_a_reader_that_went_away_ends_the_stream_with_one_warning() -> None:
    """And nothing else: what tells goes on."""
    reading, writing = os.pipe()
    faults = list[str]()
    stream = Stream(name=f"fd:{writing}", warn=faults.append)
    stream.open()
    os.close(reading)
    stream.tell(EVENT)
    stream.tell(EVENT)
    stream.close()
    os.close(writing)
    assert faults == [f"--events fd:{writing}: no more events are written: Broken pipe"]
