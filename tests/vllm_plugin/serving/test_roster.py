"""Roster: what vLLM schedules, in any order, never moves an account to another request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkctl_vllm.serving import roster
from sparkctl_vllm.serving.roster import Batch, Roster, Work


def test_a_slot_is_given_again_only_when_it_is_free():
    """Three arrive for two slots: the third has none until one ends, and an account that stays keeps its slot."""
    held = Roster(capacity=2)
    held, first = roster.joined(held, "a")
    held, second = roster.joined(held, "b")
    held, third = roster.joined(held, "c")
    assert (first, second, third) == (0, 1, None)
    assert held.slot("c") == held.nobody == 2
    held, freed = roster.left(held, {"a", "never seen"})
    assert freed == (0,)
    held, third = roster.joined(held, "c")
    assert (third, held.slot("b")) == (0, 1)


def test_a_request_that_is_known_keeps_its_account():
    """Arriving again, as after being preempted under the V2 runner, opens nothing new."""
    held, _ = roster.joined(Roster(capacity=2), "a")
    assert roster.joined(held, "a") == (held, None)


@pytest.mark.parametrize(
    ("case", "is_so"),
    [
        ({"scheduled": 1, "drafts": 0, "computed": 10, "prompt": 10, "known": 11}, True),
        ({"scheduled": 4, "drafts": 3, "computed": 10, "prompt": 10, "known": 11}, True),
        # a prompt of which one token is left, since a prefix was found
        ({"scheduled": 1, "drafts": 0, "computed": 9, "prompt": 10, "known": 10}, False),
        # a preempted request computes its reply again: a chunk, and its last but one token alone
        ({"scheduled": 5, "drafts": 0, "computed": 10, "prompt": 10, "known": 15}, False),
        ({"scheduled": 1, "drafts": 0, "computed": 13, "prompt": 10, "known": 15}, False),
        ({"scheduled": 1, "drafts": 0, "computed": 14, "prompt": 10, "known": 15}, True),
        ({"scheduled": 10, "drafts": 0, "computed": 0, "prompt": 10, "known": 10}, False),
    ],
)
def test_only_the_last_token_and_its_drafts_are_decoding(case, is_so):
    """What is computed again is prefill, were it one token."""
    assert roster.decoding(**case) is is_so


def test_rows_are_whose_they_are():
    """Drafts belong to their request; one without an account has nobody's slot."""
    held, _ = roster.joined(Roster(capacity=1), "a")
    work = [Work(request="b", rows=1, decoding=True), Work(request="a", rows=3, decoding=True)]
    found = roster.batch(held, work, 8)
    assert found == Batch(requests=("b", "a"), slots=(1, 0), starts=(0, 1), rows=4)
    assert found.row_slots() == (1, 0, 0, 0)


@given(
    rows=st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=8),
    most=st.integers(1, 16),
)
def test_a_step_is_read_by_budget_only_where_all_of_it_decodes_and_fits(rows, most):
    """One row of a prompt makes the whole step a prefill."""
    work = [Work(request=f"r{at}", rows=count, decoding=on) for at, (count, on) in enumerate(rows)]
    found = roster.batch(Roster(capacity=8), work, most)
    if not all(on for _, on in rows):
        assert found == "prefill"
    elif sum(count for count, _ in rows) > most:
        assert found == "rows"
    else:
        assert found.rows == len(found.row_slots()) == sum(count for count, _ in rows)
