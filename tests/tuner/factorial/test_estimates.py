"""Estimates: what is adjusted by what, and that useless levers are accepted as seldom as was promised."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tuner.factorial.blocks import block
from tuner.factorial.estimates import Estimates, estimate
from tuner.factorial.factors import factors
from tuner.factorial.plan import Plan
from tuner.lever import Ladder
from tuner.metrics import Metric
from tuner.steps import Trial

Lines = Callable[..., Any]
Plans = Callable[..., Plan]


def boots(ladder: Ladder, line: Any, blocks: int) -> tuple[Trial, ...]:
    """Boot so many blocks over all levers."""
    groups = factors(ladder, [lever.id for lever in ladder.levers])
    return tuple(line.boot(run) for at in range(blocks) for run in block(ladder, groups, (), f"{at}"))


def found(ladder: Ladder, planned: Plans, line: Any, blocks: int = 2) -> Estimates:
    """Estimate from so many blocks."""
    return estimate(ladder, planned(ladder), boots(ladder, line, blocks))


def test_a_lever_that_moves_a_covariate_sheds_it(twelve: Ladder, planned: Plans, line_of: Lines) -> None:
    """+9 % on one stream: six streams are no longer adjusted by one stream for this lever, only by prefill."""
    line = line_of(effects={"l2": (0.09, 0.09, 0.0), "l3": (0.0, 0.05, -0.09)})
    seen = found(twelve, planned, line)
    assert seen["l2"]["c6"].adjusted == ("prefill",)
    assert seen["l3"]["c6"].adjusted == ("c1",)
    assert seen["l5"]["c6"].adjusted == ("c1", "prefill")
    assert seen["l2"]["c1"].adjusted == ()


def test_covariates_take_out_noise(twelve: Ladder, planned: Plans, line_of: Lines) -> None:
    """With metrics correlated by 0.45 the error of six streams shrinks by about the square root of 0.72."""
    plain = replace(planned(twelve), covariates={"c1": (), "c6": ()})
    ratios = []
    for seed in range(12):
        history = boots(twelve, line_of(effects={}, seed=seed, walk=0.0), 3)
        ours, theirs = estimate(twelve, planned(twelve), history), estimate(twelve, plain, history)
        ratios.append(ours["l1"]["c6"].error / theirs["l1"]["c6"].error)
    assert np.mean(ratios) == pytest.approx(math.sqrt(0.72), abs=0.06)


def test_effects_are_found_where_they_are(twelve: Ladder, planned: Plans, line_of: Lines) -> None:
    """Over 20 lines the mean estimate of each lever is its effect, within four standard errors."""
    effects = {"l1": (0.06, 0.0, 0.0), "l2": (0.0, 0.06, 0.0), "l3": (0.06, 0.06, -0.06)}
    read = [found(twelve, planned, line_of(effects=effects, seed=seed)) for seed in range(20)]
    for name in ("l0", "l1", "l2", "l3"):
        for at, metric in enumerate(("c1", "c6", "prefill")):
            values = [one[name][metric].effect for one in read]
            error = 4 * max(one[name][metric].error for one in read) / math.sqrt(20)
            assert abs(np.mean(values) - effects.get(name, (0, 0, 0))[at]) < error


def test_single_is_what_one_boot_of_each_arm_reads(twelve: Ladder, planned: Plans) -> None:
    """Without noise it is the effect itself, whatever else was on."""
    groups = factors(twelve, [lever.id for lever in twelve.levers])
    runs = [*block(twelve, groups, (), "a"), *block(twelve, groups, (), "b")]
    history = tuple(
        Trial(
            boot=str(at),
            arm=run,
            outcome="measured",
            metrics=tuple(
                Metric(
                    name=name, value=100 * (1.1 if "l3" in run else 1.0) * 0.97 ** ("l4" in run), unit="", n=1
                )
                for name in ("c1", "c6", "prefill")
            ),
        )
        for at, run in enumerate(runs)
    )
    seen = estimate(twelve, replace(planned(twelve), covariates={"c1": (), "c6": ()}), history)
    assert math.exp(seen["l3"]["c6"].single) == pytest.approx(1.1)
    assert math.exp(seen["l4"]["c1"].single) == pytest.approx(0.97)


def test_too_few_boots_give_no_estimate(twelve: Ladder, planned: Plans, line_of: Lines) -> None:
    """None at all before there are boots, and none where nothing is left over to know the noise from."""
    assert estimate(twelve, planned(twelve), ()) == {}
    assert estimate(twelve, planned(twelve), boots(twelve, line_of(effects={}), 1)[:3]) == {}
