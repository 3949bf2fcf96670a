"""A lever that changes numerics may not be accepted without a passed quality run."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sparkctl import content, edge
from sparkctl.errors import FileFault
from tuner.ladder import replay
from tuner.lever import Bounds, Ladder
from tuner.metrics import Metric
from tuner.steps import Boot, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

GAIN = 1.2


def _history(ladder: Ladder, quality: "Sequence[str]") -> tuple[Trial, ...]:
    """Boots of the stack and of the first lever by turns, the lever far ahead; `quality` belongs to its boots."""
    named = (*ladder.primary, *(guard.metric for guard in ladder.guards))
    trials = []
    for at, (base, told) in enumerate(zip((100.0, 100.4, 99.7), quality, strict=True)):
        for arm, factor, judged in (((), 1.0, ""), ((ladder.levers[0].id,), GAIN, told)):
            metrics = tuple(Metric(name=name, value=base * factor, unit="tok/s", n=8) for name in named)
            trials.append(
                Trial(boot=f"b{at}{factor}", arm=arm, outcome="measured", metrics=metrics, quality=judged)
            )
    return tuple(trials)


def _first(ladder: Ladder, *quality: str, numerics: bool = True) -> tuple[str, str]:
    levers = (replace(ladder.levers[0], numerics=numerics), *ladder.levers[1:])
    changed = replace(ladder, levers=levers)
    verdict = replay(changed, _history(changed, quality)).verdicts[0]
    return verdict.verdict, verdict.why


def test_without_a_quality_run_the_climb_asks_for_one(ladder: Ladder) -> None:
    """The gain is proven, so the next boot has the lever on and asks the battery; no verdict before that."""
    levers = (replace(ladder.levers[0], numerics=True), *ladder.levers[1:])
    changed = replace(ladder, levers=levers)
    now = replay(changed, _history(changed, ("", "", "")))
    assert now.verdicts == ()
    assert isinstance(now.ahead, Boot)
    assert (now.ahead.on, now.ahead.quality) == ((ladder.levers[0].id,), True)


def test_one_that_could_not_be_asked_leaves_the_gain_open(ladder: Ladder) -> None:
    """The reason names what is lacking, and the gain that was proven."""
    verdict, why = _first(ladder, "", "nothing, since no reference is on record", "")
    assert verdict == "inconclusive"
    assert "its quality run says nothing, since no reference is on record (sparkctl quality)" in why
    assert "gain proven" in why


def test_with_a_passed_one_it_is_accepted(ladder: Ladder) -> None:
    """One boot of the configuration that was asked is enough."""
    assert _first(ladder, "", "passes", "")[0] == "accept"


def test_an_inconclusive_one_is_not_a_pass(ladder: Ladder) -> None:
    """Its reason says so."""
    verdict, why = _first(ladder, "inconclusive", "", "")
    assert (verdict, "its quality run says inconclusive" in why) == ("inconclusive", True)


def test_the_last_run_counts(ladder: Ladder) -> None:
    """A later boot's run replaces an earlier one's."""
    assert _first(ladder, "inconclusive", "passes", "")[0] == "accept"


def test_a_failed_one_rejects_whatever_the_lever_is_meant_to_do(ladder: Ladder) -> None:
    """Also one that is not meant to change numerics and does."""
    for numerics in (True, False):
        verdict, why = _first(ladder, "fails", "", "", numerics=numerics)
        assert (verdict, "quality run fails" in why) == ("reject", True)


def test_other_levers_need_none(ladder: Ladder) -> None:
    """A lever that only moves bytes is judged by speed."""
    assert _first(ladder, "", "", "", numerics=False)[0] == "accept"


def test_a_ladder_says_what_may_be_added(ladder: Ladder) -> None:
    """Its bounds are read with it; a bound below 0 is a fault with its place."""
    raw = edge.plain(ladder) | {"quality": {"most_kl_over_floor": 0.01}}
    assert edge.structure(raw, Ladder, source="x").quality == Bounds(most_kl_over_floor=0.01)
    raw["quality"]["most_kl_over_floor"] = -1
    with pytest.raises(FileFault, match=r"\$\.quality: a bound of quality is -1"):
        edge.structure(raw, Ladder, source="x")
    assert edge.read(content.ladder("demo"), Ladder).quality is None
