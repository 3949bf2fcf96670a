"""The replay: which boot comes next, and when it ends."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tuner.ladder import replay
from tuner.lever import Boots, Ladder
from tuner.metrics import Metric
from tuner.steps import Boot, Done, On, Trial

BASE = {"c1_per_stream_tok_s": 57.0, "c6_agg_tok_s": 178.0, "prefill_47k_tok_s": 1400.0}
WAVE = (1.0, 1.004, 0.997, 1.002, 0.998, 1.003, 0.999, 1.001)
"""A quiet line: boots within half a per cent of each other."""

Line = Callable[[Boot], Trial]


def measured(boot: Boot, gain: float) -> Trial:
    """A boot that was measured at a known gain over the base."""
    factor = gain * WAVE[boot.number % len(WAVE)]
    metrics = tuple(
        Metric(name=name, value=value * factor, unit="tok/s", n=1) for name, value in BASE.items()
    )
    return Trial(boot=str(boot.number), arm=boot.on, outcome="measured", metrics=metrics)


def line(gains: dict[str, float], spoilt: dict[int, str] | None = None) -> Line:
    """A line on which levers multiply the speed; `spoilt` makes the boots of these numbers void or failed."""

    def boot(step: Boot) -> Trial:
        match (spoilt or {}).get(step.number):
            case "void":
                return Trial(boot=str(step.number), arm=step.on, outcome="void", why="warm cache")
            case "failed":
                return Trial(boot=str(step.number), arm=step.on, outcome="failed", why="corrupt text")
            case _:
                gain = 1.0
                for lever in step.on:
                    gain *= gains.get(lever, 1.0)
                return measured(step, gain)

    return boot


def climbed(ladder: Ladder, boot: Line, most: int = 80) -> tuple[Trial, ...]:
    """Boot until nothing is left to boot."""
    history: tuple[Trial, ...] = ()
    while isinstance(step := replay(ladder, history).ahead, Boot):
        assert len(history) < most
        history = (*history, boot(step))
    return history


def arms(history: tuple[Trial, ...]) -> list[On]:
    """The levers that were on, boot by boot."""
    return [trial.arm for trial in history]


def test_arms_of_the_first_lever_go_there_and_back(ladder: Ladder) -> None:
    """A B B A A B B A: a line that warms up or ages steadily favours neither arm."""
    one = replace(ladder, levers=ladder.levers[:1], boots=Boots(least=8, most=8))
    on = ("nccl-channels",)
    history = climbed(one, line({}))
    assert arms(history) == [(), on, on, (), (), on, on, ()] * 2


def test_accepted_levers_stack_and_their_boots_are_used_again(ladder: Ladder) -> None:
    """Two boots of the new stack are already there; a fresh one still stands between the first two of the next lever."""
    history = climbed(ladder, line({"nccl-channels": 1.3, "async-scheduling": 1.3}))
    stack, both = ("nccl-channels",), ("nccl-channels", "async-scheduling")
    standing = replay(ladder, history)
    first = standing.verdicts[0].boots
    assert arms(history)[first : first + 3] == [both, stack, both]
    assert standing.stack == both
    assert [verdict.verdict for verdict in standing.verdicts] == ["accept", "accept", "reject", "reject"]


def test_every_boot_is_paid_for_by_one_lever(ladder: Ladder) -> None:
    """The boots of the verdicts add up to the boots of the climb."""
    history = climbed(ladder, line({"nccl-channels": 1.1}, {3: "void", 9: "failed"}))
    standing = replay(ladder, history)
    assert sum(verdict.boots for verdict in standing.verdicts) == len(history)
    assert sum(verdict.voids for verdict in standing.verdicts) == 1


def test_no_boot_is_judged_twice_between_looks(ladder: Ladder) -> None:
    """Decisions on numbers fall only at boots that complete a new pair, from the least number on."""
    history = climbed(ladder, line({}))
    known = [len(replay(ladder, history[:end]).verdicts) for end in range(len(history) + 1)]
    counts = [end for end in range(1, len(history) + 1) if known[end] > known[end - 1]]
    assert counts[0] == 4
    assert len(counts) == 4


def test_two_failures_with_a_lever_on_reject_it_and_the_climb_goes_on(ladder: Ladder) -> None:
    """A lever that breaks the smoke costs two boots, and the stack is left as it was."""
    two = replace(ladder, levers=(ladder.levers[3], ladder.levers[0]))

    def boot(step: Boot) -> Trial:
        if "b12x-mxfp8" in step.on:
            return Trial(boot=str(step.number), arm=step.on, outcome="failed", why="corrupt text")
        return measured(step, 1.2 if step.on else 1.0)

    history = climbed(two, boot)
    assert arms(history)[:4] == [(), ("b12x-mxfp8",), ("b12x-mxfp8",), ("nccl-channels",)]
    standing = replay(two, history)
    assert [verdict.verdict for verdict in standing.verdicts] == ["reject", "accept"]
    assert "corrupt text" in standing.verdicts[0].why
    assert standing.verdicts[0].seed_rule == "reject"


@pytest.mark.parametrize(("outcome", "boots"), [("failed", 2), ("void", 3)])
def test_a_base_that_cannot_be_measured_ends_the_climb(ladder: Ladder, outcome: str, boots: int) -> None:
    """Two failed or three void boots of the stack in a row are the line's fault, not a lever's."""
    history = climbed(ladder, line({}, dict.fromkeys(range(1, 20), outcome)))
    end = replay(ladder, history).ahead
    assert len(history) == boots
    assert isinstance(end, Done)
    assert end.base_failed
    assert end.why.startswith(f"base {outcome} {boots} times in a row")


def test_a_void_is_repeated_and_three_leave_the_lever_open(ladder: Ladder) -> None:
    """A void boot is kept, counted and booted again; after the third the lever is inconclusive."""
    on = ("nccl-channels",)
    once = climbed(ladder, line({}, {2: "void"}))
    assert arms(once)[:4] == [(), on, on, on]
    thrice = replay(ladder, climbed(ladder, line({}, {2: "void", 3: "void", 4: "void"})))
    assert (thrice.verdicts[0].verdict, thrice.verdicts[0].voids) == ("inconclusive", 3)


def test_levers_that_cannot_stand_on_the_stack_are_not_booted(ladder: Ladder) -> None:
    """A conflict with an accepted lever, and the need of a rejected one, are settled without a boot."""
    first, second, third, fourth = ladder.levers
    tied = replace(
        ladder,
        levers=(
            first,
            replace(second, conflicts=(first.id,)),
            third,
            replace(fourth, requires=(third.id,)),
        ),
    )
    verdicts = replay(tied, climbed(tied, line({first.id: 1.3}))).verdicts
    assert [verdict.verdict for verdict in verdicts] == ["accept", "reject", "reject", "reject"]
    assert [verdict.boots > 0 for verdict in verdicts] == [True, False, True, False]
    assert "cannot stand beside nccl-channels" in verdicts[1].why
    assert "needs nccl-threads" in verdicts[3].why


def test_profile_levers_stay_open(ladder: Ladder) -> None:
    """What a profile offers is not judged by speed."""
    profile = replace(ladder, levers=(replace(ladder.levers[0], kind="profile"),))
    standing = replay(profile, ())
    assert [one.verdict for one in standing.verdicts] == ["inconclusive"]
    assert standing.ahead == Done(base_failed=False, why="every lever has its verdict")
