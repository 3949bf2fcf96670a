"""What the last line of a climb says of how far it came."""

import pytest

from sparkctl.cli.tune_shown import reached
from tuner.climb import Climb


@pytest.mark.parametrize(
    ("end", "why", "left", "said"),
    [
        ("done", "every lever has its verdict", (), "every lever has its verdict"),
        ("done", "every lever has its verdict", ("mtp", "b12x"), "left open: mtp, b12x"),
        ("budget", "24 boots are made", ("mtp",), "24 boots are made"),
        ("base", "base failed 3 times in a row", ("mtp",), "base failed 3 times in a row"),
    ],
)
def test_a_climb_that_decided_nothing_does_not_say_that_it_did(
    end: str, why: str, left: tuple[str, ...], said: str
) -> None:
    """Levers left open are named in the place of `every lever has its verdict`; other ends keep their reason."""
    ended = Climb(stack=(), verdicts=(), trials=(), open=left, end=end, why=why, confirmed=None, broken=())  # type: ignore[arg-type]
    assert reached(ended) == said
