"""The outlook of a climb: more boots buy more power, too few say so, and the bound is the one that will decide."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tuner.course import Course
from tuner.factorial.plan import plan
from tuner.lever import Ladder
from tuner.noise import Noise
from tuner.outlook import outlook, runs_for

QUIET = Noise(
    scatter={"c1_per_stream_tok_s": 0.01, "c6_agg_tok_s": 0.03, "prefill_47k_tok_s": 0.015}, correlation=0.45
)
LOUD = Noise(
    scatter={"c1_per_stream_tok_s": 0.016, "c6_agg_tok_s": 0.056, "prefill_47k_tok_s": 0.039},
    correlation=0.45,
)


@pytest.fixture
def power(ladder: Ladder) -> Callable[..., float]:
    """The chance to prove +4 % on six streams with so many runs."""

    def of(noise: Noise, runs: int | None, levers: int = 4) -> float:
        base = ladder.levers[0]
        many = replace(ladder, levers=tuple(replace(base, id=f"l{at}") for at in range(levers)))
        course = Course(design="factorial", rule="proof", seed=1, plan=plan(many, noise, runs))
        return outlook(many, course, noise, 12.0).power["c6_agg_tok_s"][0.04]

    return of


def test_power_grows_with_runs_and_falls_with_noise_and_levers(power: Callable[..., float]) -> None:
    """The planned runs of a quiet line find +4 % nearly always; a third of them on a loud one hardly ever."""
    assert power(QUIET, 20) < power(QUIET, 40) < power(QUIET, 80)
    assert power(QUIET, None) > 0.9
    assert power(LOUD, 24) < 0.3
    assert power(LOUD, 200) > 0.9
    assert power(QUIET, 40, levers=16) < power(QUIET, 40)


def test_fewer_runs_than_levers_buy_nothing(power: Callable[..., float]) -> None:
    """Thirty levers cannot be told apart by twenty boots, and the plan says so."""
    assert power(QUIET, 26, levers=30) == 0.0


@pytest.mark.parametrize("boots", [1, 8, 16, 30, 60, 200])
def test_a_budget_leaves_room_for_what_comes_on_top(ladder: Ladder, boots: int) -> None:
    """Lost boots always, the confirmation where half of the budget still goes to the blocks."""
    runs = runs_for(ladder, boots)
    assert runs >= 4
    assert runs % 2 == 0
    assert runs <= max(4, boots)
    found = outlook(
        ladder, Course(design="factorial", rule="proof", seed=1, plan=plan(ladder, QUIET, runs)), QUIET, 12.0
    )
    if boots >= 30:
        assert found.most <= boots + 2


def test_other_courses_have_an_outlook_too(ladder: Ladder) -> None:
    """One lever at a time by its arms; the seeds' rule in a boot a lever, with no power to speak of."""
    alone = outlook(ladder, Course(design="ladder", rule="proof", seed=1, plan=None), QUIET, 12.0)
    assert alone.most >= 2 * ladder.boots.most * len(ladder.levers)
    assert alone.power["c6_agg_tok_s"][0.04] < 0.5
    seeds = outlook(ladder, Course(design="ladder", rule="seed", seed=1, plan=None), QUIET, 12.0)
    assert seeds.power == {}
    assert len(ladder.levers) < seeds.most < 2 * len(ladder.levers)
