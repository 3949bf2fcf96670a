"""What ranks and API amount to."""

import pytest

from launcher.status import Rank, judge


def _ranks(*states: str) -> tuple[Rank, ...]:
    return tuple(Rank(node=f"n{at}", rank=at, state=state) for at, state in enumerate(states))


@pytest.mark.parametrize(
    ("states", "serves", "state"),
    [
        (("running", "running"), ("m",), "serving"),
        (("running", "running"), (), "loading"),
        (("absent", "absent"), (), "down"),
        (("running", "exited"), ("m",), "broken"),
        (("exited", "exited"), (), "down"),
        (("absent", "absent"), ("m",), "broken"),
        (("running", "unreachable"), ("m",), "unclear"),
    ],
)
def test_a_line_is_what_all_its_ranks_are(
    states: tuple[str, ...], serves: tuple[str, ...], state: str
) -> None:
    """A green API never makes up for a dead rank, and a node that does not answer makes it unclear."""
    assert judge(_ranks(*states), serves)[0] == state
