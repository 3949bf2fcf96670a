"""The restart floor and who stays under it, on scores that were drawn with a known noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tuner.lever import Bounds
from tuner.quality import bootstrap, floor
from tuner.quality.floor import Run
from tuner.quality.logprobs import MIXES, Mix, Position, Scored

SEED = 5
TEXTS, TOKENS, KNOWN = 6, 200, 8


def _run(boot: str, noise: float, *, loss: float = 0.0, seed: int, mixes: tuple[Mix, ...] = MIXES) -> Run:
    """Score made-up texts: the same logits in every run, each with this much noise of its own; `loss` takes from the right token."""
    base, own = np.random.default_rng(0), np.random.default_rng(seed)
    logits = base.normal(0, 2, (TEXTS, TOKENS, KNOWN))
    scored = []
    for mix in mixes:
        noisy = logits + own.normal(0, 1, logits.shape) * noise
        noisy[:, :, 0] -= loss
        logs = noisy - np.log(np.exp(noisy).sum(axis=2, keepdims=True))
        scored += [
            Scored(text=f"t{at}", mix=mix, positions=tuple(_position(one) for one in text))
            for at, text in enumerate(logs)
        ]
    return Run(boot=boot, scored=tuple(scored))


def _position(logs: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> Position:
    ranked = np.argsort(-logs)
    return Position(token="0", logprob=float(logs[0]), top=tuple((str(at), float(logs[at])) for at in ranked))


REFERENCE = _run("r0", 0.08, seed=1)
REPEATS = (_run("r1", 0.08, seed=2), _run("r2", 0.08, seed=3))


def test_a_restart_of_the_same_configuration_passes() -> None:
    """It lies as far from the reference as the floor does, and adds next to nothing."""
    found = floor.judge(REFERENCE, REPEATS, (_run("c", 0.08, seed=4),), None, SEED)
    assert found.outcome == "passes"
    assert found.boots == 3
    kl = found.judged[0]
    assert kl.bound == kl.floor
    assert kl.bound_from == "floor"
    assert kl.added.low < 0.0005


def test_a_damaged_checkpoint_exceeds_and_says_where() -> None:
    """Its right tokens lost little and its distributions much: every measure is named with floor and bound."""
    found = floor.judge(REFERENCE, REPEATS, (_run("c", 0.6, loss=0.1, seed=4),), None, SEED)
    assert found.outcome == "exceeds"
    assert found.why.startswith("kl_nats adds")
    assert "to a floor of" in found.why


def test_perplexity_alone_can_exceed() -> None:
    """A loss that is everywhere the same hardly moves KL, and three percent of perplexity are still a loss."""
    found = floor.judge(REFERENCE, REPEATS, (_run("c", 0.08, loss=0.1, seed=4),), None, SEED)
    by = {one.measure: one.outcome for one in found.judged}
    assert (by["kl_nats"], by["loss_nats"], found.outcome) == ("passes", "exceeds", "exceeds")


def test_in_between_it_is_inconclusive() -> None:
    """The interval lies on both sides of the bound: more texts or boots would tell, this run does not."""
    kl = floor.judge(REFERENCE, REPEATS, (_run("c", 0.3, seed=4),), None, SEED).judged[0]
    bounds = Bounds(most_kl_over_floor=kl.added.mean, most_top1_changed_over_floor=1, most_perplexity_gain=1)
    found = floor.judge(REFERENCE, REPEATS, (_run("c", 0.3, seed=4),), bounds, SEED)
    assert (found.outcome, found.judged[0].bound_from) == ("inconclusive", "ladder")


def test_a_ladder_may_allow_more_than_the_floor() -> None:
    """What a configuration may cost is its owner's to say."""
    bounds = Bounds(most_kl_over_floor=1.0, most_top1_changed_over_floor=1.0, most_perplexity_gain=0.5)
    assert floor.judge(REFERENCE, REPEATS, (_run("c", 0.6, seed=4),), bounds, SEED).outcome == "passes"


def test_a_ladder_that_allows_nothing_is_obeyed() -> None:
    """Zero means zero, not the floor."""
    bounds = Bounds(most_kl_over_floor=0.0)
    kl = floor.judge(REFERENCE, REPEATS, (_run("c", 0.3, seed=4),), bounds, SEED).judged[0]
    assert (kl.bound, kl.outcome) == (0.0, "exceeds")


def test_engines_that_repeat_to_the_bit_leave_a_little_room() -> None:
    """With a floor of nothing every rounding would exceed it: the least bound holds."""
    still = [replace(REFERENCE, boot=name) for name in ("r1", "c")]
    found = floor.judge(REFERENCE, still[:1], still[1:], None, SEED)
    assert found.outcome == "passes"
    # Under load these scores differ from those alone, in the floor as in the candidate.
    assert found.judged[0].added == bootstrap.Estimate(mean=0.0, low=0.0, high=0.0)
    quiet = replace(REFERENCE, scored=tuple(one for one in REFERENCE.scored if one.mix == "alone"))
    assert floor.judge(quiet, [quiet], [replace(quiet, boot="c")], None, SEED).judged[0].bound_from == "least"


def test_without_a_repeat_nothing_is_judged() -> None:
    """One boot says nothing of restarts."""
    found = floor.judge(REFERENCE, (), (_run("c", 0.08, seed=4),), None, SEED)
    assert (found.outcome, found.judged) == ("inconclusive", ())
    assert "one more boot" in found.why


def test_the_references_own_boot_is_no_candidate() -> None:
    """It repeats itself, so alone it proves nothing, and beside another boot it must not pull the mean down."""
    own, other = replace(REFERENCE), _run("c", 0.08, seed=4)
    assert floor.judge(REFERENCE, REPEATS, (own,), None, SEED).why.startswith(
        "this is the reference's own boot"
    )
    assert floor.judge(REFERENCE, REPEATS, (own, other), None, SEED) == floor.judge(
        REFERENCE, REPEATS, (other,), None, SEED
    )


def test_the_floor_is_told_by_its_parts() -> None:
    """Boot and batch apart; a run without a loaded mix has no batch part."""
    found = floor.floor(REFERENCE, REPEATS, SEED)
    assert set(found) == {"restart", "mix", "both"}
    for measures in found.values():
        kl = measures["kl_nats"]
        assert kl.low <= kl.mean <= kl.high
        assert 0.002 < kl.mean < 0.02
    alone = _run("r0", 0.08, seed=1, mixes=("alone",))
    assert set(floor.floor(alone, (_run("r1", 0.08, seed=2, mixes=("alone",)),), SEED)) == {"restart"}


def test_distances_are_told_for_all_texts_and_each() -> None:
    """The whole is the mean of its texts by their tokens."""
    found = floor.distances(REFERENCE, REPEATS[0], SEED)
    assert [one.text for one in found] == ["", *(f"t{at}" for at in range(TEXTS))]
    assert found[0].positions == TEXTS * TOKENS
    mean = sum(one.measures["kl_nats"].mean for one in found[1:]) / TEXTS
    assert found[0].measures["kl_nats"].mean == pytest.approx(mean)
    assert found[0].perplexity == pytest.approx(
        found[0].reference_perplexity * math.exp(found[0].measures["loss_nats"].mean)
    )


def test_the_same_scores_are_judged_the_same() -> None:
    """The bootstrap is seeded."""
    candidate = (_run("c", 0.2, seed=4),)
    assert floor.judge(REFERENCE, REPEATS, candidate, None, 1) == floor.judge(
        REFERENCE, REPEATS, candidate, None, 1
    )


def test_the_interval_holds_what_it_promises() -> None:
    """On blocks with a known mean the 90 % interval covers it in about nine of ten draws, though their sums are skewed."""
    chance = np.random.default_rng(11)
    blocks = chance.gamma(2.0, 0.05, size=(1, 200, 120)) * 32
    found = bootstrap.estimates(blocks, np.full(120, 32.0), SEED)
    assert 165 <= sum(one.low <= 0.1 <= one.high for one in found) <= 195


def test_texts_that_were_not_scored_are_named() -> None:
    """A run that lacks one cannot be compared."""
    short = replace(REPEATS[0], scored=REPEATS[0].scored[1:])
    with pytest.raises(ValueError, match="text t0 was not scored alone"):
        floor.judge(REFERENCE, (short,), (short,), None, SEED)
