"""Allocation of bits, and the account of an EXL3 checkpoint: arithmetic against search and against published figures."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch here: run by scripts/check --engine")

from sparkctl_vllm.exl3 import account, allocation, matrix
from sparkctl_vllm.exl3.allocation import Priced
from sparkctl_vllm.exl3.checkpoint import Shape
from sparkctl_vllm.refusal import Refusal


def layers(count, seed=0):
    """Layers of random gains whose errors fall to about a quarter with every bit."""
    chance = np.random.default_rng(seed)

    def proxy(matrices):
        first = matrices * chance.uniform(0.03, 0.06)
        return {bits: first * chance.uniform(0.23, 0.27) ** (bits - 2) for bits in (2, 3, 4)}

    return {
        number: Priced(gain=float(chance.lognormal()), tokens=1000.0, proxy={"gate_up": proxy(2), "down": proxy(1)})
        for number in range(count)
    }  # fmt: skip


@pytest.mark.parametrize("target", [2.0, 2.34, 3.0, 3.5, 4.0])
def test_the_target_is_kept_and_nothing_more_fits(target):
    """On average at most the target, and less than the smallest step below it."""
    of = layers(5)
    rates = allocation.allocated(of, target, (2, 3, 4))
    assert target - 1 / 15 < allocation.average(rates) <= target + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_it_is_next_to_the_best_of_all(seed):
    """Against every allocation of three layers: within the price of the last step that did not fit."""
    of, target = layers(3, seed), 3.0
    rates = allocation.allocated(of, target, (2, 3, 4))
    best = np.inf
    for bits in product((2, 3, 4), repeat=6):
        one = {layer: {"gate_up": bits[2 * layer], "down": bits[2 * layer + 1]} for layer in range(3)}
        if allocation.average(one) <= target + 1e-9:
            best = min(best, allocation.predicted(of, one))
    assert best <= allocation.predicted(of, rates) <= 1.1 * best


def test_a_layer_that_matters_more_has_more_bits():
    """Of two layers that differ in gain alone."""
    one = layers(1)[0]
    strong = Priced(gain=10 * one.gain, tokens=one.tokens, proxy=one.proxy)
    rates = allocation.allocated({0: one, 1: strong}, 3.0, (2, 3, 4))
    assert all(rates[1][part] > rates[0][part] for part in allocation.PARTS)


def test_factors_move_bits_between_layers():
    """What a layer was measured to cost beyond what is told outweighs an equal layer; a wrong count is refused."""
    one = layers(1)[0]
    rates = allocation.allocated(allocation.weighted({3: one, 7: one}, (9.0, 1.0)), 3.0, (2, 3, 4))
    assert all(rates[3][part] > rates[7][part] for part in allocation.PARTS)
    with pytest.raises(Refusal, match="2 numbers above 0, one a layer"):
        allocation.weighted({3: one, 7: one}, (1.0,))


def test_a_target_beyond_the_rates_is_refused():
    """With the rates that are used."""
    with pytest.raises(Refusal, match=r"bits: 4\.5, allowed: 3 to 4"):
        allocation.allocated(layers(2), 4.5, (3, 4))


def flash(bits):
    """An expert of DeepSeek-V4.1 Flash."""
    return {0: Shape(experts=1, neurons=2304, hidden=5120, rates=dict.fromkeys(("gate", "up", "down"), bits))}


def test_an_expert_takes_what_is_published():
    """13.27 MB of trellis and 44.5 KB of scales at K = 3, 3.01 bits a weight (cuda-exl3's tensors, by arithmetic)."""
    shape = flash(3)
    assert 18 * account.block_bytes(shape[0]) == 13_271_040
    assert account.rank_bytes(shape, 2304) == 13_271_040 + 44_544 + 12
    assert account.bits(shape).stored == pytest.approx(3.01, abs=5e-4)


def test_four_ranks_share_an_expert():
    """512, 640, 640, 512: the inner ranks hold a quarter more trellis than the outer ones."""
    shape, widths = flash(3), matrix.uneven(2304, 4)
    assert widths == (512, 640, 640, 512)
    each = [account.rank_bytes(shape, width) for width in widths]
    assert each[0] == each[3] < each[1] == each[2]
    assert sum(each) - account.rank_bytes(shape, 2304) == 3 * (2 * 2 * 5120 + 2 * 5120 + 12)
