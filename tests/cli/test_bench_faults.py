"""Lines that look healthy and whose benches must not count: each ends in void, with its reason and without a number."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ledger.journal import Journal

if TYPE_CHECKING:
    from conftest import Program

REASONS = {
    "loop": "its reply is damaged, loop",
    "post-eos": "its reply is damaged, after_end",
    "zero-output": "0 completion tokens, wanted at least 2",
    "warm-cache": "prompt tokens came from the cache, wanted a cold prompt",
    "second-client": "another client",
    "slow-flip": "the line changed its state",
}
"""By scenario, what its bench must say."""

DEFAULT = {"slow-flip"}
"""Measured in the default tests, the others under --full."""

pytestmark = pytest.mark.cluster


@pytest.fixture(
    params=[
        pytest.param(name, id=name, marks=() if name in DEFAULT else (pytest.mark.full,)) for name in REASONS
    ]
)
def scenario(request: pytest.FixtureRequest, program: "Program") -> Iterator[str]:
    """A booted line with this fault."""
    name: str = request.param
    assert program("rehearse", "up", "--scenario", name).code == 0
    booted = program("boot", "--rehearsal")
    assert booted.code == 0, booted.err
    yield name
    assert program("rehearse", "down").code == 0


def test_a_bench_that_cannot_be_trusted_is_void(program: "Program", scenario: str) -> None:
    """Exit 1, the reason, no figure; the ledger keeps the row with its voids and every request."""
    ended = program("bench", "--rehearsal", "--json")
    assert ended.code == 1, ended.out + ended.err
    document = ended.document
    assert not document["ok"]
    assert document["metrics"] == document["categories"] == []
    assert any(REASONS[scenario] in void for void in document["voids"]), document["voids"]
    (row,) = [row for row in Journal(program.state / "ledger.jsonl").read().rows if row.kind == "bench"]
    assert row.body["voids"]
    assert row.body["requests"]
    if scenario == "slow-flip":
        assert program("down", "--rehearsal").code == 0
        checked = program("check", "--rehearsal", "--json").document
        slow = [
            one["node"] for one in checked["findings"] if one["gate"] == "gemv" and one["verdict"] == "fail"
        ]
        assert slow == ["spark-a2"], "what the bench met is what the probe sees"
