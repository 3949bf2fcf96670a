"""Short climbs keep their error: the practice ladder of five levers, two of them real, climbed in simulation on a thousand noisy lines."""

from dataclasses import replace

import pytest

from rehearsal import scenario as scenarios
from sparkctl import edge
from tuner.lever import Ladder

from .test_climbs import LADDERS, REAL, simulated

pytestmark = pytest.mark.full

CLIMBS = 1000


def test_a_useless_lever_is_accepted_no_more_often_than_asked() -> None:
    """In at most 5 % of the climbs, the error of the ladder; in 7 % while the drift's degree of freedom was not counted."""
    rungs, healthy = edge.read(LADDERS / "five.yml", Ladder), scenarios.named("healthy")
    wrong = [
        seed
        for seed in range(CLIMBS)
        if not set(simulated(replace(healthy, seed=seed * 7919 + 13), rungs, seed).stack) <= REAL
    ]
    assert len(wrong) <= rungs.error * CLIMBS, wrong
