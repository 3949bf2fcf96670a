"""Flags that are whole numbers, as vLLM's own parser reads them."""

import pytest

from launcher import counts

GOOD = [
    {},
    {"max-model-len": 300000},
    {"max-model-len": "256k", "max-num-batched-tokens": "8K"},
    {"max-model-len": "25.6k"},
    {"max-model-len": "auto"},
    {"max-model-len": -1},
    {"max-num-seqs": "16", "block-size": 64},
]
BAD = [
    ("max-model-len", "abc"),
    ("max-model-len", "1.5M"),
    ("max-model-len", "300_000 tokens"),
    ("max-model-len", 3e5),
    ("max-num-batched-tokens", "auto"),
    ("max-num-batched-tokens", True),
    ("max-num-seqs", "8k"),
    ("max-num-seqs", [8]),
    ("block-size", -64),
]


@pytest.mark.parametrize("args", GOOD)
def test_what_the_engine_takes_passes(args: dict[str, object]) -> None:
    """Plain numbers, and where its parser knows them short ones and `auto`."""
    assert counts.wrong(args) == ""


@pytest.mark.parametrize(("flag", "value"), BAD)
def test_what_the_engine_would_refuse_after_minutes_is_named(flag: str, value: object) -> None:
    """The flag, what it is and what is wanted."""
    said = counts.wrong({flag: value})
    assert said.startswith(f"{flag} is {value!r}, wanted a whole number")
