"""The factorial climb from its first boot to its end, on lines whose levers are known."""

from tuner.factorial import progress
from tuner.factorial.plan import plan
from tuner.ladder import Boot, Trial
from tuner.lever import Ladder

from .conftest import NOISE, Line, climbed, ladder_of, lever


def test_a_large_gain_is_proven_and_a_loss_is_not_taken(twelve: Ladder) -> None:
    """Of twelve levers one gains 8 % on both metrics and one loses 8 %; the rest does nothing."""
    line = Line(effects={"l3": (0.08, 0.08, 0.0), "l7": (-0.08, -0.08, 0.0)})
    ended = climbed(twelve, line.boot)
    assert ended.stack == ("l3",)
    found = {one.lever: one.verdict for one in ended.verdicts}
    assert found["l7"] == "reject"
    assert all(one.why for one in ended.verdicts)
    assert not ended.open


def test_the_same_boots_give_the_same_verdicts(twelve: Ladder) -> None:
    """A climb that broke off goes on from its boots: nothing is remembered but what follows from them."""
    line = Line(effects={"l3": (0.08, 0.08, 0.0)})
    now = progress.start(twelve, plan(twelve, NOISE), 3)
    history: tuple[Trial, ...] = ()
    while isinstance(step := progress.ahead(now), Boot):
        trial = line.boot(step.on)
        history = (*history, trial)
        now = progress.advance(now, trial)
    again = progress.replay(twelve, plan(twelve, NOISE), 3, history)
    assert (again.verdicts, again.stack) == (now.verdicts, now.stack)
    half = progress.replay(twelve, plan(twelve, NOISE), 3, history[: len(history) // 2])
    assert progress.ahead(half) == Boot(
        **{
            **{key: getattr(progress.ahead(half), key) for key in ("lever", "number", "reason")},
            "on": history[len(history) // 2].arm,
        }
    )


def test_a_guard_that_breaks_rejects_a_gain() -> None:
    """A lever that gains 8 % and costs 20 % of prefill is not taken."""
    rungs = ladder_of(lever("a"), lever("b"), lever("c"))
    ended = climbed(rungs, Line(effects={"b": (0.08, 0.08, -0.22)}).boot)
    found = {one.lever: one for one in ended.verdicts}
    assert found["b"].verdict == "reject"
    assert "prefill" in found["b"].why
