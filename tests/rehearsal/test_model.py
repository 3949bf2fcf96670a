"""The step-time model: its figures lie where public figures lie, and its draws can be had again."""

import math
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest

from rehearsal import model
from rehearsal.model import Between, Noise, Speed, Within

FAST, SLOW = model.GEMV_FAST_GB_S, model.GEMV_SLOW_GB_S
NOISE = Noise(
    between=Between(c1=0.01, c6=0.03, prefill=0.015, correlation=0.45),
    within=Within(decode=0.004, prefill=0.004),
)


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        pytest.param(model.step_s(1, FAST, Speed()), 0.063, 0.063, id="one-stream-fast"),
        pytest.param(model.step_s(1, SLOW, Speed()), 0.094, 0.094, id="one-stream-slow"),
        pytest.param(6 * 3.57 / model.step_s(6, FAST, Speed()), 178, 206, id="six-streams-before-ttft"),
        pytest.param(46_810 / model.prefill_s(46_810, Speed()), 1300, 1450, id="prefill-47k"),
        pytest.param(2_950 / model.prefill_s(2_950, Speed()), 1000, 1250, id="prefill-3k"),
        pytest.param(model.prefill_s(60, Speed()), 0.18, 0.26, id="ttft-short"),
    ],
)
def test_figures_lie_where_public_ones_lie(value: float, low: float, high: float) -> None:
    """The plain model gives the published figures."""
    assert low - 1e-9 <= value <= high + 1e-9


def test_the_slow_state_multiplies_every_step() -> None:
    """A node at 70 GB/s makes any batch take 94/63 of its time; a node between lies between."""
    for streams in (1, 3, 6):
        ratio = model.step_s(streams, SLOW, Speed()) / model.step_s(streams, FAST, Speed())
        assert ratio == pytest.approx(94 / 63)
    assert 1 < model.slowdown(150) < 94 / 63


def test_speed_is_between_its_ends() -> None:
    """One stream has the c1 factor, six have the c6 factor, and three have something between."""
    speed = Speed(c1=1.05, c6=1.10)
    assert speed.at(1) == pytest.approx(1.05)
    assert speed.at(6) == speed.at(9) == pytest.approx(1.10)
    assert 1.05 < speed.at(3) < 1.10


def test_chunks_sum_to_the_whole_prefill() -> None:
    """Cutting a prompt into chunks changes only when its parts are computed."""
    parts = sum(model.chunk_s(at, min(at + 8192, 47_000), Speed()) for at in range(0, 47_000, 8192))
    assert parts + model.PREFILL_SHORT_S == pytest.approx(model.prefill_s(47_000, Speed()))


def test_boots_vary_as_the_noise_says() -> None:
    """Over many boots the log speeds have the standard deviations and the correlation asked for."""
    boots = [model.boot_speed(NOISE, 1, number) for number in range(4000)]
    c1, c6, prefill = ([math.log(getattr(boot, name)) for boot in boots] for name in ("c1", "c6", "prefill"))
    assert statistics.pstdev(c1) == pytest.approx(0.01, rel=0.05)
    assert statistics.pstdev(c6) == pytest.approx(0.03, rel=0.05)
    assert statistics.pstdev(prefill) == pytest.approx(0.015, rel=0.05)
    assert statistics.correlation(c1, c6) == pytest.approx(0.45, abs=0.05)


def test_a_line_that_wanders_takes_all_three_along() -> None:
    """The steps from boot to boot have the size asked for, add up, and are the same for every metric."""
    still = replace(NOISE.between, c1=0.0, c6=0.0, prefill=0.0)
    wandering = replace(NOISE, between=replace(still, walk=0.02))
    levels = [math.log(model.boot_speed(wandering, 1, number).c6) for number in range(1, 400)]
    assert statistics.pstdev(b - a for a, b in pairwise(levels)) == pytest.approx(0.02, rel=0.1)
    assert max(levels) - min(levels) > 0.1
    one = model.boot_speed(wandering, 1, 300)
    assert one.c1 == one.c6 == one.prefill


def test_a_seed_and_a_boot_fix_the_draws() -> None:
    """The same key gives the same boot; another boot or seed gives another."""
    assert model.boot_speed(NOISE, 7, 3) == model.boot_speed(NOISE, 7, 3)
    assert model.boot_speed(NOISE, 7, 3) != model.boot_speed(NOISE, 7, 4)
    assert model.boot_speed(NOISE, 7, 3) != model.boot_speed(NOISE, 8, 3)


def test_accepted_tokens_keep_to_their_mean() -> None:
    """Each step yields one to six tokens, and long answers keep close to the mean."""
    chance = model.draw(1, 1, "tokens")
    emitted, counts = 0, []
    for step in range(1, 401):
        counts.append(model.accepted(3.57, step, emitted, chance))
        emitted += counts[-1]
    assert set(counts) <= set(range(1, 7))
    assert len(set(counts)) > 3
    assert emitted / 400 == pytest.approx(3.57, abs=0.02)
