"""The server's own counters beside the client's count: read exactly, and a reason to distrust a bench where they part."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner import counters
from tuner.counters import Counters

DATA = Path(__file__).parent / "data"
MORE = "the server counted 10,400 generated tokens and the replies 10,000, wanted both within 0.5%: another client was served too"
LESS = "the server counted 150 prompt tokens and the replies 200, wanted both within 0.5%: it does not count what it charges for"
QUIET = Counters(prompt=1000, made=5000, running=0, waiting=0)


def test_look_alikes_are_other_counters() -> None:
    """Names match exactly and are summed over engines; `_created` and `_by_reason` do not count, NaN is unknown.

    The page is a public case (two engines, a time stamp behind a value, scientific notation), kept as it was written down.
    """
    found = counters.read((DATA / "metrics-two-engines-lookalikes.prom.txt").read_text(encoding="utf-8"))
    assert found.waiting == 5
    assert found.cached == 1_234_507
    assert found.accepted is None
    assert found.made is None


def _after(**grown: float) -> Counters:
    told = {"prompt": 0.0, "made": 0.0, **grown}
    return Counters(prompt=1000 + told["prompt"], made=5000 + told["made"], running=0, waiting=0)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (QUIET, _after(prompt=200, made=10_000), ()),
        (QUIET, _after(prompt=200, made=10_050), ()),
        (None, _after(prompt=999, made=999), ()),
        (QUIET, None, ()),
        (
            QUIET,
            _after(prompt=200, made=10_400),
            (MORE,),
        ),
        (
            QUIET,
            _after(prompt=150, made=10_000),
            (LESS,),
        ),
        (
            Counters(prompt=1000, made=5000, running=2, waiting=1),
            _after(prompt=200, made=10_000),
            ("3 requests of another client ran when it began, wanted a line of its own",),
        ),
        (
            QUIET,
            Counters(prompt=10, made=20, running=0, waiting=0),
            ("the server's counters went back: the engine was started anew meanwhile",),
        ),
    ],
)
def test_counters_that_part_from_the_replies_void_a_bench(
    before: Counters | None, after: Counters | None, said: tuple[str, ...]
) -> None:
    """Another client, a restart, or tokens that only one side knows of; an endpoint without counters is judged without them."""
    assert tuple(counters.voids(before, after, prompt=200, made=10_000)) == said


def test_acceptance_counts_the_verified_token_too() -> None:
    """Tokens a step: the accepted drafts and the engine's own."""
    assert Counters(drafts=100, accepted=240).acceptance == pytest.approx(3.4)
    assert Counters(drafts=0, accepted=0).acceptance is None
    assert Counters().acceptance is None


@given(st.text(max_size=200))
def test_any_page_is_read(page: str) -> None:
    """A page that holds no counters tells none."""
    found = counters.read(page)
    assert counters.growth(found, found).made in {None, 0.0}
