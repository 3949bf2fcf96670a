"""The climb as a replay: cases of whole ladders, determinism, voids and failures, resuming, confirmation."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.factorial import confirmation, replay
from tuner.factorial.plan import Plan, plan
from tuner.factorial.progress import Progress
from tuner.lever import Ladder, Lever
from tuner.metrics import Metric
from tuner.steps import Boot, Done, Trial
from tuner.verdict import answer

from .conftest import MOST, NOISE

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))

Climb = Callable[..., Progress]
Lines = Callable[..., Any]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_ladder_ends_as_the_case_says(  # noqa: PLR0913, PLR0917 - one fixture each
    case: Path,
    ladder_of: Callable[..., Ladder],
    lever: Callable[..., Lever],
    line_of: Lines,
    climbed: Climb,
    planned: Callable[..., Plan],
) -> None:
    """Verdicts, stack, the words of the reasons and the end of a whole ladder on a simulated line."""
    raw = json.loads(case.read_text(encoding="utf-8"))
    levers = [
        lever(
            name, **{key: tuple(value) if isinstance(value, list) else value for key, value in ties.items()}
        )
        for name, ties in raw["levers"].items()
    ]
    ladder = ladder_of(*levers)
    line = line_of(
        effects={name: tuple(effect) for name, effect in raw["effects"].items()},
        seed=raw["seed"],
        breaks={frozenset(names.split("+")): end for names, end in raw.get("breaks", {}).items()},
        spoilt={int(number): end for number, end in raw.get("spoilt", {}).items()},
        slow=tuple(raw.get("slow", ())),
        walk=raw.get("walk", 0.003),
    )
    end = climbed(ladder, line.boot, planned(ladder, arming=raw.get("arming", "blocks")))
    verdicts = {one.lever: one.verdict for one in end.verdicts}
    assert verdicts == raw["verdicts"]
    assert sorted(end.stack) == sorted(name for name, said in raw["verdicts"].items() if said == "accept")
    for name, words in raw.get("why", {}).items():
        why = next(one.why for one in end.verdicts if one.lever == name)
        assert [word for word in words if word not in why] == []
    done = replay.ahead(end)
    assert isinstance(done, Done)
    assert done.base_failed == raw.get("base_failed", False)
    low, high = raw["boots"]
    assert low <= len(end.trials) <= high


def test_the_same_boots_give_the_same_verdicts(twelve: Ladder, line_of: Lines, climbed: Climb) -> None:
    """A replay of the recorded boots, whole or cut anywhere and taken up again, is the climb that was."""
    effects = {"l1": (0.06, 0.06, 0.0), "l4": (0.0, 0.09, 0.0), "l7": (-0.05, -0.05, 0.0)}
    line = line_of(effects=effects, seed=8, spoilt={5: "void", 12: "failed", 13: "void", 14: "void"})
    end = climbed(twelve, line.boot)
    raw = tuple(replace(one, outcome="measured") if one.metrics else one for one in end.trials)
    assert replay.replay(twelve, end.plan, end.seed, raw) == end
    for cut in range(0, len(raw), 7):
        half = replay.replay(twelve, end.plan, end.seed, raw[:cut])
        step = replay.ahead(half)
        assert isinstance(step, Boot)
        assert (step.on, step.number) == (raw[cut].arm, cut + 1)
        for trial in raw[cut:]:
            half = replay.advance(half, trial)
        assert half == end


def test_recorded_boots_give_the_recorded_verdicts(twelve: Ladder, planned: Callable[..., Plan]) -> None:
    """Boots recorded once: their verdicts, reasons, counts and voids must never change by themselves."""
    raw = json.loads((Path(__file__).parent / "golden" / "climb.json").read_text(encoding="utf-8"))
    history = tuple(
        Trial(
            boot=str(number),
            arm=tuple(row["arm"]),
            outcome=row["outcome"],
            why=row["why"],
            metrics=tuple(
                Metric(name=name, value=value, unit="tok/s", n=1)
                for name, value in zip(("c1", "c6", "prefill"), row["values"], strict=False)
            ),
        )
        for number, row in enumerate(raw["trials"], 1)
    )
    end = replay.replay(twelve, planned(twelve), raw["seed"], history)
    keys = ("lever", "verdict", "boots", "voids", "seed_rule", "why")
    assert [{key: getattr(one, key) for key in keys} for one in end.verdicts] == raw["verdicts"]
    assert list(end.stack) == raw["stack"]
    assert [at for at, one in enumerate(end.trials, 1) if one.outcome == "void"] == raw["void"]
    assert isinstance(replay.ahead(end), Done)


def test_verdicts_are_never_taken_back(twelve: Ladder, line_of: Lines, climbed: Climb) -> None:
    """What was told after a boot still stands after every later one."""
    end = climbed(twelve, line_of(effects={"l2": (0.09, 0.0, 0.0)}, seed=2).boot)
    now, told = replay.start(twelve, end.plan, end.seed), ()
    for trial in end.trials:
        now = replay.advance(now, trial)
        assert now.verdicts[: len(told)] == told
        told = now.verdicts
    assert replay.standing_of(now).verdicts == end.verdicts


def test_two_boots_arm_every_lever(twelve: Ladder, planned: Callable[..., Plan], line_of: Lines) -> None:
    """After the base and a mirrored pair each lever has been on once, and nobody is suspect."""
    now = replay.start(twelve, planned(twelve), 3)
    line = line_of(effects={})
    runs = []
    for _ in range(3):
        step = replay.ahead(now)
        assert isinstance(step, Boot)
        runs.append(step.on)
        now = replay.advance(now, line.boot(step.on))
    assert runs[0] == ()
    assert sorted((*runs[1], *runs[2])) == sorted(lever.id for lever in twelve.levers)


def test_a_lever_that_breaks_its_boots_is_found_by_halving(
    twelve: Ladder, line_of: Lines, climbed: Climb
) -> None:
    """It costs at most eight lost boots to find, and is off from then on."""
    line = line_of(effects={"l3": (0.06, 0.06, 0.0)}, breaks={frozenset({"l9"}): "failed"})
    end = climbed(twelve, line.boot)
    verdict = next(one for one in end.verdicts if one.lever == "l9")
    assert verdict.verdict == "reject"
    assert "failed 2 times with nothing else suspect" in verdict.why
    assert sum(one.outcome == "failed" for one in end.trials) <= 8
    assert all("l9" not in one.arm for one in end.trials[verdict.boots :])
    assert "l3" in end.stack


def test_a_pair_that_breaks_together_is_named(twelve: Ladder, line_of: Lines, climbed: Climb) -> None:
    """Both levers boot without the other, so neither is thrown out; the pair is told to whoever asks."""
    line = line_of(effects={"l3": (0.06, 0.06, 0.0)}, breaks={frozenset({"l4", "l9"}): "failed"})
    end = climbed(twelve, line.boot)
    assert end.broken == (("l4", "l9"),)
    assert not any("suspect" in one.why for one in end.verdicts)
    assert "l3" in end.stack


def test_an_outlier_is_void_once_and_data_the_second_time(
    twelve: Ladder, planned: Callable[..., Plan], line_of: Lines
) -> None:
    """A boot a third below the others is repeated; where the same configuration reads so again, it is believed."""
    line = line_of(effects={}, slow=(7, 8))
    now = replay.start(twelve, planned(twelve), 3)
    for _ in range(8):
        step = replay.ahead(now)
        assert isinstance(step, Boot)
        now = replay.advance(now, line.boot(step.on))
    assert [one.outcome for one in now.trials[6:8]] == ["void", "measured"]
    assert now.trials[6].arm == now.trials[7].arm
    assert "far below what was to be expected" in now.trials[6].why


def test_an_outlier_among_the_first_boots_is_found_at_a_look(
    twelve: Ladder, line_of: Lines, climbed: Climb
) -> None:
    """Before three boots there is no median; the fit of all others finds it."""
    end = climbed(twelve, line_of(effects={}, slow=(2,)).boot)
    assert end.trials[1].outcome == "void"
    assert "by all other boots" in end.trials[1].why


@pytest.mark.parametrize(("outcome", "boots"), [("failed", 3), ("void", 5)])
def test_a_base_that_cannot_be_measured_ends_the_climb(
    twelve: Ladder, line_of: Lines, climbed: Climb, outcome: str, boots: int
) -> None:
    """Three failed or five void boots of the base in a row are the line's fault, not a lever's."""
    end = climbed(twelve, line_of(effects={}, spoilt=dict.fromkeys(range(1, 50), outcome)).boot)
    done = replay.ahead(end)
    assert isinstance(done, Done)
    assert (done.base_failed, len(end.trials)) == (True, boots)
    assert done.why.startswith(f"base {outcome} {boots} times in a row")


def test_a_line_that_breaks_later_is_told_from_levers_by_the_base(
    twelve: Ladder, line_of: Lines, climbed: Climb
) -> None:
    """After four lost boots in a row the base is booted, and it ends the climb when it is lost too."""
    end = climbed(twelve, line_of(effects={}, spoilt=dict.fromkeys(range(20, 90), "failed")).boot)
    assert [one.arm for one in end.trials[-3:]] == [(), (), ()]
    assert len(end.trials) == 26
    assert "base failed 3 times in a row" in end.fault


def test_confirmation_is_fresh_boots_of_base_and_stack(
    twelve: Ladder, line_of: Lines, climbed: Climb
) -> None:
    """Four pairs B A A B, so that the stack serves at the end, and in their middle the stack without each winner once; verdicts do not change by them."""
    end = climbed(twelve, line_of(effects={"l1": (0.09, 0.09, 0.0), "l5": (0.08, 0.08, 0.0)}).boot)
    fresh = [one.arm for one in end.trials[end.fresh :]]
    both = ("l1", "l5")
    assert fresh == [both, (), (), both, ("l5",), ("l1",), both, (), (), both]
    found = confirmation.gain(twelve, end.stack, end.trials[end.fresh :])
    assert found["c1"].low > 1.05
    assert (found["c1"].n_arm, found["c1"].n_base, found["c1"].degrees) == (4, 4, 6)
    worth = confirmation.worth(twelve, end.stack, end.trials[end.fresh :])
    assert worth.keys() == {"l1", "l5"}
    assert 1.0 < worth["l1"]["c1"].estimate < 1.3


def test_a_boot_that_was_not_asked_for_is_data_and_no_more(
    twelve: Ladder, planned: Callable[..., Plan], line_of: Lines
) -> None:
    """The plan goes on where it was."""
    now = replay.start(twelve, planned(twelve), 3)
    after = replay.advance(now, line_of(effects={}).boot(("l1", "l2")))
    assert (after.queue, after.runs, len(after.trials)) == (now.queue, 0, 1)


def test_every_verdict_says_what_the_seeds_rule_would_have_said(
    twelve: Ladder, line_of: Lines, climbed: Climb
) -> None:
    """One boot with it on and one with it off, the other levers' effects taken out."""
    end = climbed(twelve, line_of(effects={"l1": (0.30, 0.30, 0.0), "l2": (0.30, 0.30, -0.5)}).boot)
    said = {one.lever: one.seed_rule for one in end.verdicts}
    assert said["l1"] == "accept"
    assert said["l2"] == "reject"
    assert set(said.values()) == {"accept", "reject"}


def test_a_void_boot_never_counts_as_measured(twelve: Ladder, line_of: Lines, climbed: Climb) -> None:
    """What a void boot read changes no estimate."""
    line = line_of(effects={}, spoilt={9: "void"})
    end = climbed(twelve, line.boot)
    poisoned = tuple(
        replace(one, metrics=(replace(end.trials[0].metrics[0], value=1.0),))
        if one.outcome == "void"
        else one
        for one in end.trials
    )
    again = replay.replay(twelve, end.plan, end.seed, poisoned)
    assert [one.metrics for one in again.verdicts] == [one.metrics for one in end.verdicts]


def test_trial_without_a_metric_is_left_out(twelve: Ladder, line_of: Lines, climbed: Climb) -> None:
    """A boot whose prefill was not measured tells nothing of the guard, so it is not used at all."""
    line = line_of(effects={})

    def boot(on: tuple[str, ...]) -> Trial:
        trial = line.boot(on)
        return replace(trial, metrics=trial.metrics[:2]) if line.boots == 10 else trial

    assert climbed(twelve, boot).phase == "ended"


@pytest.mark.parametrize(
    ("told", "outcome", "asks"),
    [
        ("passes", "accept", 1),
        ("fails", "reject", 1),
        ("inconclusive", "inconclusive", 1),
        ("nothing, since no reference is on record", "inconclusive", 1),
        ("", "inconclusive", 3),
    ],
)
def test_a_lever_that_changes_numerics_is_asked_for_its_quality(
    twelve: Ladder, line_of: Lines, told: str, outcome: str, asks: int
) -> None:
    """Once its gain is proven, on a boot of the stack and it; boots that are lost for it are made three times at most."""
    numeric = replace(twelve, levers=(replace(twelve.levers[0], numerics=True), *twelve.levers[1:]))
    line = line_of(effects={"l0": (0.09, 0.09, 0.0), "l5": (0.09, 0.09, 0.0)})
    asked: list[tuple[str, ...]] = []
    now = replay.start(numeric, plan(numeric, NOISE, MOST), 3)
    while isinstance(step := replay.ahead(now), Boot) and now.phase != "confirming":
        trial = line.boot(step.on)
        if step.quality:
            asked.append(step.on)
            trial = replace(trial, quality=told) if told else replace(trial, outcome="failed", why="no start")
        now = replay.advance(now, trial)
    assert len(asked) == asks
    assert all("l0" in arm for arm in asked)
    verdict = {one.lever: one for one in now.verdicts}["l0"]
    assert verdict.verdict == outcome
    assert told in {"passes", "fails"} or told in verdict.why
    assert ("l0" in now.stack) == (outcome == "accept")


def test_the_stack_is_asked_for_its_quality_once_in_the_confirmation(twelve: Ladder, line_of: Lines) -> None:
    """On its first fresh boot that is measured, whatever its levers are meant to change."""
    line = line_of(effects={"l1": (0.09, 0.09, 0.0)})
    now = replay.start(twelve, plan(twelve, NOISE, MOST), 3)
    asked = 0
    while isinstance(step := replay.ahead(now), Boot):
        asked += step.quality
        now = replay.advance(now, replace(line.boot(step.on), quality="passes" if step.quality else ""))
    assert asked == 1
    assert replay.standing_of(now).confirmed.quality == "passes"


@pytest.mark.parametrize("most", [4, 6, 8, 12, 16, 20])
def test_a_plan_of_hardly_any_runs_ends_all_the_same(
    ladder_of: Callable[..., Ladder], lever: Callable[..., Lever], line_of: Lines, most: int
) -> None:
    """With one degree of freedom an interval may reach beyond what a float holds, and nothing is proven by it."""
    four = ladder_of(*(lever(f"l{at}") for at in range(4)))
    line = line_of(effects={"l0": (0.05, 0.10, 0.0), "l1": (0.09, 0.0, 0.0)})
    now = replay.start(four, plan(four, NOISE, most), 1)
    while isinstance(step := replay.ahead(now), Boot):
        now = replay.advance(now, line.boot(step.on))
        if now.runs < min(most, 13):
            assert "reject" not in {one.verdict for one in now.verdicts}, "given up on a handful of boots"
        json.dumps([answer(one) for one in now.verdicts], allow_nan=False)
    assert {one.lever for one in now.verdicts} == {"l0", "l1", "l2", "l3"}
