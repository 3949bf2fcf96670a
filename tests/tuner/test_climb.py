"""The climb: everything is noted as it happens, and an interrupted one goes on as if nothing had happened."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.climb import Climb, Event, climb
from tuner.course import Course
from tuner.factorial.plan import plan
from tuner.lever import Ladder
from tuner.metrics import Metric
from tuner.noise import Noise
from tuner.steps import Boot, Trial

LADDER = Course(design="ladder", rule="proof", seed=1, plan=None)
SEED = Course(design="ladder", rule="seed", seed=1, plan=None)

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


def blocks(ladder: Ladder, seed: int = 1) -> Course:
    """The factorial course of a ladder, planned for the noise of the line here."""
    noise = Noise(scatter={name: scatter for name, (_, scatter) in BASE.items()}, correlation=0.0)
    return Course(design="factorial", rule="proof", seed=seed, plan=plan(ladder, noise))


def undisturbed(
    ladder: Ladder, seed: int, trouble: float, course: Course = LADDER
) -> tuple[Climb, list[Event]]:
    """A whole climb and all that it noted."""
    events: list[Event] = []
    return climb(ladder, course, (), line(seed, trouble), events.append), events


def cut(ladder: Ladder, course: Course, seed: int, trouble: float, kept_events: Callable[[int], int]) -> None:
    """Break a climb off after some event; the rest must follow from what was noted: same boots, same verdicts, same order."""
    whole, events = undisturbed(ladder, seed, trouble, course)
    kept = events[: kept_events(len(events))]
    trials = tuple(event for event in kept if isinstance(event, Trial))
    rest: list[Event] = []
    told = len(kept) - len(trials)
    again = climb(ladder, course, trials, line(seed, trouble, trials), rest.append, told=told)
    assert again == whole
    assert kept + rest == events


@pytest.mark.parametrize("course", [LADDER, SEED], ids=["ladder", "seed"])
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), trouble=st.sampled_from([0.0, 0.1, 0.3]), data=st.data())
def test_a_climb_cut_anywhere_goes_on_to_the_same_end(
    ladder: Ladder, course: Course, seed: int, trouble: float, data: st.DataObject
) -> None:
    """One lever at a time, by proof and by the seeds' rule."""
    cut(ladder, course, seed, trouble, lambda count: data.draw(st.integers(0, count), label="events kept"))


@pytest.mark.parametrize("seed", range(20))
def test_blocks_cut_anywhere_go_on_to_the_same_end(ladder: Ladder, seed: int) -> None:
    """The factorial design, on twenty seeds, quiet and troubled lines in turn."""
    place = random.Random(seed)  # noqa: S311 - a place to cut at
    cut(
        ladder,
        blocks(ladder, seed + 1),
        seed,
        (0.0, 0.1, 0.2)[seed % 3],
        lambda count: place.randint(0, count),
    )


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
        climb(ladder, LADDER, (), measure, events.append)
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
    whole = climb(ladder, LADDER, (), line(1, 0.0), lambda _: None, enough=lambda trials: len(trials) >= 3)
    assert (len(whole.trials), whole.end) == (3, "budget")
    assert whole.open == tuple(lever.id for lever in ladder.levers)


def test_a_failing_base_ends_the_climb(ladder: Ladder) -> None:
    """Nothing can be judged on a stack that does not boot."""
    failing = climb(
        ladder,
        LADDER,
        (),
        lambda boot: Trial(boot=str(boot.number), arm=boot.on, outcome="failed", why="rank 2: no start"),
        lambda _: None,
    )
    assert (failing.end, len(failing.trials)) == ("base", 2)
    assert "rank 2: no start" in failing.why


def test_blocks_confirm_the_stack_and_end_with_it_serving(ladder: Ladder) -> None:
    """The two real levers are found, the broken one is not, and only fresh boots say what the stack is worth."""
    whole, _ = undisturbed(ladder, 1, 0.0, blocks(ladder))
    assert set(whole.stack) == {"nccl-channels", "async-scheduling"}
    assert {one.lever: one.verdict for one in whole.verdicts}["b12x-mxfp8"] == "reject"
    assert whole.trials[-1].arm == ("nccl-channels", "async-scheduling")
    assert whole.confirmed is not None
    gain = whole.confirmed.gain["c1_per_stream_tok_s"]
    assert gain.low < 1.08 * 1.09 < gain.high
    assert set(whole.confirmed.worth) == set(whole.stack)


def test_the_seeds_rule_takes_one_boot_a_lever(ladder: Ladder) -> None:
    """Base and each lever once; the verdict is what one boot says, and the broken lever is out at once."""
    whole, _ = undisturbed(ladder, 1, 0.0, SEED)
    assert len(whole.trials) == 1 + len(ladder.levers)
    assert {one.boots for one in whole.verdicts} == {1}
    assert all(one.verdict == one.seed_rule for one in whole.verdicts)
    assert "b12x-mxfp8" not in whole.stack


def test_a_course_says_no_to_contradictions(ladder: Ladder) -> None:
    """The seeds' rule has no blocks, and blocks have a plan."""
    plan_of = blocks(ladder).plan
    for design, rule, chosen in (
        ("factorial", "seed", plan_of),
        ("factorial", "proof", None),
        ("ladder", "proof", plan_of),
    ):
        with pytest.raises(ValueError, match="wanted"):
            Course(design=design, rule=rule, seed=1, plan=chosen)
