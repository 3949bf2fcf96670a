"""The climb: everything is noted as it happens, and an interrupted one goes on as if nothing had happened."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.climb import Climb, Event, climb
from tuner.ladder import Boot, Trial
from tuner.lever import Ladder
from tuner.metrics import Metric

BASE = {
    "c1_per_stream_tok_s": (57.0, 0.010),
    "c6_agg_tok_s": (178.0, 0.030),
    "prefill_47k_tok_s": (1400.0, 0.015),
}
GAINS = {"nccl-channels": 1.08, "async-scheduling": 1.09, "nccl-threads": 1.0}


def line(seed: int, trouble: float, past: tuple[Trial, ...] = ()) -> Callable[[Boot], Trial]:
    """A line whose boot is a function of seed, arm and how often this arm was booted: restarts change nothing."""
    booted = [trial.arm for trial in past]

    def measure(boot: Boot) -> Trial:
        drawn = random.Random(f"{seed}/{boot.on}/{booted.count(boot.on)}")  # noqa: S311 - noise, not a secret
        booted.append(boot.on)
        name = str(boot.number)
        if drawn.random() < trouble:
            return Trial(boot=name, arm=boot.on, outcome=drawn.choice(("void", "failed")), why="bad luck")
        if "b12x-mxfp8" in boot.on:
            return Trial(boot=name, arm=boot.on, outcome="failed", why="corrupt text")
        gain = math.prod(GAINS[lever] for lever in boot.on)
        metrics = tuple(
            Metric(name=metric, value=level * gain * math.exp(drawn.gauss(0, noise)), unit="tok/s", n=1)
            for metric, (level, noise) in BASE.items()
        )
        return Trial(boot=name, arm=boot.on, outcome="measured", metrics=metrics)

    return measure


def undisturbed(ladder: Ladder, seed: int, trouble: float) -> tuple[Climb, list[Event]]:
    """A whole climb and all that it noted."""
    events: list[Event] = []
    return climb(ladder, (), line(seed, trouble), events.append), events


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), trouble=st.sampled_from([0.0, 0.1, 0.3]), data=st.data())
def test_a_climb_cut_anywhere_goes_on_to_the_same_end(
    ladder: Ladder, seed: int, trouble: float, data: st.DataObject
) -> None:
    """After any event the rest of the climb follows from what was noted: same boots, same verdicts, in the same order."""
    whole, events = undisturbed(ladder, seed, trouble)
    kept = events[: data.draw(st.integers(0, len(events)), label="events kept")]
    trials = tuple(event for event in kept if isinstance(event, Trial))
    told = len(kept) - len(trials)
    rest: list[Event] = []
    again = climb(ladder, trials, line(seed, trouble, trials), rest.append, told=told)
    assert again == whole
    assert kept + rest == events


def test_events_are_noted_in_order_and_verdicts_right_after_their_boot(ladder: Ladder) -> None:
    """Each boot is noted before the next starts, each verdict before another boot is spent."""
    whole, events = undisturbed(ladder, 1, 0.0)
    assert tuple(event for event in events if isinstance(event, Trial)) == whole.trials
    assert tuple(event for event in events if not isinstance(event, Trial)) == whole.verdicts
    at = 0
    for verdict in whole.verdicts:
        at += verdict.boots + 1
        assert events[at - 1] == verdict


def test_an_interrupt_leaves_everything_noted_so_far(ladder: Ladder) -> None:
    """Ctrl-C during the fifth boot loses that boot and nothing else."""
    events: list[Event] = []
    boots = line(1, 0.0)

    def measure(boot: Boot) -> Trial:
        if boot.number == 5:
            raise KeyboardInterrupt
        return boots(boot)

    with pytest.raises(KeyboardInterrupt):
        climb(ladder, (), measure, events.append)
    assert events == undisturbed(ladder, 1, 0.0)[1][: len(events)]
    assert sum(isinstance(event, Trial) for event in events) == 4


def test_real_levers_stack_and_open_ones_are_named(ladder: Ladder) -> None:
    """On a disciplined line the two real levers are found, the broken one is rejected, the end says done."""
    whole, _ = undisturbed(ladder, 1, 0.0)
    assert whole.stack == ("nccl-channels", "async-scheduling")
    assert whole.end == "done"
    verdicts = {verdict.lever: verdict.verdict for verdict in whole.verdicts}
    assert verdicts["b12x-mxfp8"] == "reject"
    assert whole.open == tuple(name for name, verdict in verdicts.items() if verdict == "inconclusive")


def test_a_budget_ends_the_climb_before_the_next_boot(ladder: Ladder) -> None:
    """Three boots are spent, none more; what is not decided is open."""
    whole = climb(ladder, (), line(1, 0.0), lambda _: None, enough=lambda trials: len(trials) >= 3)
    assert (len(whole.trials), whole.end) == (3, "budget")
    assert whole.open == tuple(lever.id for lever in ladder.levers)


def test_a_failing_base_ends_the_climb(ladder: Ladder) -> None:
    """Nothing can be judged on a stack that does not boot."""
    failing = climb(
        ladder,
        (),
        lambda boot: Trial(boot=str(boot.number), arm=boot.on, outcome="failed", why="rank 2: no start"),
        lambda _: None,
    )
    assert (failing.end, len(failing.trials)) == ("base", 2)
    assert "rank 2: no start" in failing.why
