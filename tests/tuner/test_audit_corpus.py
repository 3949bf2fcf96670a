"""The audit on its corpus: how many damaged replies it finds, how many whole ones it accuses, with 95 % intervals."""

from random import Random
from types import ModuleType

import pytest
from scipy.stats import binomtest

from tuner.audit import audit

from .corpus import fit, fit_more, held

DAMAGED_FOUND = 0.99
HEALTHY_ACCUSED = 0.005
EACH = 120
"""Replies of each generator: above 5,000 whole and above 2,000 damaged ones in the held-out half."""


def rates(corpus: ModuleType, each: int) -> tuple[float, float]:
    """Print and return the shares of damaged replies found and of whole replies accused."""
    shares = []
    for name, makers, wanted in (("damaged", corpus.DAMAGED, True), ("whole", corpus.HEALTHY, False)):
        wrong: dict[str, int] = {}
        for kind, make in makers.items():
            for number in range(each):
                wrong[kind] = wrong.get(kind, 0) + (bool(audit(make(Random(f"{kind} {number}")))) != wanted)
        count, total = sum(wrong.values()), each * len(makers)
        flagged = total - count if wanted else count
        bounds = binomtest(flagged, total).proportion_ci(method="wilson")
        print(
            f"{name}: {flagged} of {total} flagged, {flagged / total:.2%} ({bounds.low:.2%} to {bounds.high:.2%})"
        )
        print("  wrong:", {kind: number for kind, number in wrong.items() if number} or "none")
        shares.append(flagged / total)
    return shares[0], shares[1]


@pytest.mark.parametrize("corpus", [fit, fit_more], ids=["fit", "fit_more"])
def test_the_thresholds_fit_what_they_were_chosen_on(corpus: ModuleType) -> None:
    """A changed threshold shows here first."""
    found, accused = rates(corpus, 25)
    assert found >= DAMAGED_FOUND
    assert accused <= HEALTHY_ACCUSED


def test_the_audit_holds_on_generators_that_no_threshold_was_chosen_on() -> None:
    """At least 99 % of at least 2,000 damaged replies are found, and at most 0.5 % of at least 2,000 whole ones accused."""
    assert EACH * min(len(held.DAMAGED), len(held.HEALTHY)) >= 2000
    found, accused = rates(held, EACH)
    assert found >= DAMAGED_FOUND
    assert accused <= HEALTHY_ACCUSED


def test_the_halves_share_no_sentence_and_no_generator() -> None:
    """What the thresholds were chosen on says nothing that the held-out half says."""
    for one in (fit, fit_more):
        shared = set(one.HEALTHY.values()) & set(held.HEALTHY.values())
        assert not shared
    for language, grammar in held.HELD.items():
        assert not {
            frame for known in (fit.FIT, fit_more.MORE) for g in known.values() for frame in g.frames
        } & set(grammar.frames), language
