"""What a rank's log proves: one case a file, then what must hold for any log."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher import capacity, evidence

CASES = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parent / "evidence").glob("*.json"))
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_log_proves_what_its_case_says(case: dict[str, Any]) -> None:
    """Each different value once, in order; what the log does not speak of is left out."""
    found = evidence.read(case["log"])
    assert {name: list(values) for name, values in found.items()} == case["values"]


@given(st.lists(st.text(max_size=80), max_size=10))
def test_any_log_proves_something_short_or_nothing(log: list[str]) -> None:
    """No text makes a parser fail, and no value is longer than a line of a terminal takes."""
    for values in evidence.read(log).values():
        assert all(0 < len(value) <= 160 for value in values)


def test_secrets_do_not_become_evidence() -> None:
    """A path with a token in it is told without the token."""
    found = evidence.read(["[engram.py:1] rows read from node-local /srv?api_key=Zq7secret"])
    assert "Zq7secret" not in str(found)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("0.33.0", ""),
        ("0.33.0+cu130", ""),
        ("0.33.0.dev12+g1a2b3c4", ""),
        ("0.33.1", ""),
        ("0.32.4", "its log says version 0.32.4, wanted 0.33.0, which the recipe is written for"),
        ("0.3.3", "its log says version 0.3.3, wanted 0.33.0, which the recipe is written for"),
        ("0.1.dev1+g1a2b3c4", ""),
        ("dev", ""),
    ],
)
def test_a_version_is_of_the_recipes_release_or_not(told: str, said: str) -> None:
    """What a build adds does not count, and a build that has no number contradicts nothing."""
    found = evidence.unmet({"a": {"version": (told,)}}, {}, "0.33.0", "a")
    assert (found.said if found else "") == said


def test_a_fork_may_count_otherwise() -> None:
    """A recipe says so itself; then only what it expects is asked for."""
    assert evidence.unmet({"a": {"version": ("1.4.0",)}}, {"version": "1.4"}, "0.33.0", "a") is None


def test_what_only_the_head_says_is_asked_of_the_head() -> None:
    """A worker has no engine core that would size the cache."""
    found = {"a": {"kv_tokens": ("1,000",)}, "b": dict[str, tuple[str, ...]]()}
    assert evidence.unmet(found, {"kv_tokens": "1,000"}, "0.33.0", "a") is None
    assert evidence.unmet({"a": {}, "b": {}}, {"kv_tokens": "1,000"}, "0.33.0", "a") is not None


def test_the_pin_is_what_every_rank_can_hold() -> None:
    """The least offer less a margin, in quarters; no pin where a rank did not say, or has too little to offer."""
    uneven = {"a": {"kv_gib": ("28.10",)}, "b": {"kv_gib": ("15.52", "15.50")}, "c": {"kv_gib": ("27.9",)}}
    assert capacity.pin(uneven) == capacity.Pin(gib=14.5, node="b", least_gib=15.5, most_gib=28.1)
    assert capacity.pin({**uneven, "d": {}}) is None
    assert capacity.pin({"a": {"kv_gib": ("-3.41",)}}) is None
    assert capacity.pin({}) is None
