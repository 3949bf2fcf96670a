"""Replies put together from reads: each case is a file of reads with times and the reply that they make."""

import json
from pathlib import Path

import pytest

from sparkctl import edge
from tuner.stream import Arrival, Reply, assemble, said

CASES = sorted((Path(__file__).parent / "data" / "streams").glob("*.json"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_reply_is_what_the_case_says(case: Path) -> None:
    """Text, times, counts and fault are those of the file, whose `about` says what must hold."""
    raw = json.loads(case.read_text(encoding="utf-8"))
    arrivals = [Arrival(at_s=at_s, data=text.encode()) for at_s, text in raw["arrivals"]]
    assert assemble(arrivals) == edge.structure(raw["reply"], Reply, source=case.name)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_reply_does_not_depend_on_where_reads_are_cut(case: Path) -> None:
    """Byte by byte at equal times, everything but the times of half events stays the same."""
    raw = json.loads(case.read_text(encoding="utf-8"))
    whole = [Arrival(at_s=at_s, data=text.encode()) for at_s, text in raw["arrivals"]]
    bytewise = [
        Arrival(at_s=one.at_s, data=one.data[at : at + 1]) for one in whole for at in range(len(one.data))
    ]
    assert assemble(bytewise) == assemble(whole)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no such model", "code": 404}}, "no such model"),
        ({"message": "too long", "object": "error"}, "too long"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"error": "busy"}, "busy"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_error_bodies_are_read_in_every_known_shape(body: object, message: str) -> None:
    """The message alone is shown where there is one."""
    assert said(body) == message
