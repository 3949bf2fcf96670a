"""The climb over two lines: balance, independence of who finishes first, resuming, lines that are lost, levers that divide them."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner import joint
from tuner.course import Course
from tuner.factorial import together
from tuner.factorial.plan import Plan
from tuner.lever import Ladder
from tuner.steps import Away, Back, Boot, Event, On, Trial
from tuner.verdict import Verdict

from .conftest import Line, ladder_with, lever_named

LINES = ("A", "B")
EFFECTS = {"l1": (0.06, 0.06, 0.0), "l4": (0.0, 0.09, 0.0), "l7": (-0.05, -0.05, 0.0)}

Planner = Callable[..., Plan]


class Crew:
    """Two simulated lines that boot at their own speeds; `lost` names boots (line, number) at which a line goes away."""

    def __init__(
        self,
        lines: dict[str, Any],
        minutes: dict[str, float],
        past: tuple[Event, ...] = (),
        lost: dict[str, int] | None = None,
        jitter: int = 0,
    ) -> None:
        self.lines, self.minutes, self.lost = lines, minutes, lost or {}
        self.random = random.Random(jitter)  # noqa: S311 - durations
        self.jitter = jitter
        self.now = 0.0
        self.ends: list[tuple[float, str, Boot]] = []
        for event in past:
            if isinstance(event, Trial):
                lines[event.line].boot(event.arm)

    def start(self, line: str, step: Boot) -> None:
        """Begin a boot."""
        assert line not in {name for _, name, _ in self.ends}, "one boot at a time on a line"
        took = self.minutes[line] * (self.random.uniform(0.2, 3) if self.jitter else 1)
        self.ends.append((self.now + took, line, step))

    def wait(self) -> Trial | Away:
        """End the boot that ends first."""
        self.ends.sort(key=lambda end: end[:2])
        self.now, line, step = self.ends.pop(0)
        if self.lost.get(line) == step.number:
            return Away(line=line, why="a cable")
        return replace(self.lines[line].boot(step.on), line=line)


def lines_of(
    seed: int = 1,
    effects: dict[str, dict[str, tuple[float, float, float]]] | None = None,
    **more: Any,
) -> dict[str, Line]:
    """Two lines with noise of their own, the second with other levels and other effects where named."""
    return {
        name: Line(effects=(effects or {}).get(name, EFFECTS), seed=seed + at, level=0.1 * at, **more)
        for at, name in enumerate(LINES)
    }


def course_of(plan: Plan, seed: int = 3) -> Course:
    """The course of two lines."""
    return Course(design="factorial", rule="proof", seed=seed, plan=plan, lines=LINES)


def climbed(
    ladder: Ladder, plan: Plan, crew: Crew, seed: int = 3
) -> tuple[joint.Joint, list[Event | Verdict]]:
    """A whole climb and all that it noted."""
    events: list[Event | Verdict] = []
    return joint.climb(ladder, course_of(plan, seed), (), crew, events.append), events


def happened(events: list[Event | Verdict]) -> tuple[Event, ...]:
    """What happened on the lines, without the verdicts."""
    return tuple(one for one in events if not isinstance(one, Verdict))


def test_two_lines_find_what_acts_and_share_the_boots(twelve: Ladder, planned: Planner) -> None:
    """Both lines boot alike often, and end with the right stack, confirmed on each by its own boots."""
    end, _ = climbed(twelve, planned(twelve), Crew(lines_of(), {"A": 20, "B": 21}))
    assert end.end == "done"
    assert sorted(end.stack) == ["l1", "l4"]
    counts = Counter(one.line for one in end.trials)
    assert abs(counts["A"] - counts["B"]) <= 6
    assert end.confirmed.keys() == {"A", "B"}
    for line in LINES:
        assert end.confirmed[line].gain["c6"].n_arm == 4
        assert end.on(line).trials[-1].arm == tuple(one for one in ("l1", "l4"))


def runs_of(ladder: Ladder, plan: Plan, seed: int) -> Iterator[tuple[str, On]]:
    """The planned runs of a climb that decides nothing, line by line."""
    state = together.begin(ladder, plan, seed, LINES)
    for _ in range(plan.first // 2 + 1):
        for line, step in together.standings(state).ahead.items():
            yield line, step.on
            trial = Trial(boot="", arm=step.on, outcome="void", why="", line=line)
            state = together.advance(state, replace(trial, outcome="measured"))


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(levers=st.integers(2, 16), seed=st.integers(1, 10**6))
def test_line_is_a_block_factor_orthogonal_to_every_lever(planned: Planner, levers: int, seed: int) -> None:
    """After whole pairs each lever was on in exactly half of each line's runs; each run stands beside its mirror image."""
    ladder = ladder_with(*(lever_named(f"l{at}") for at in range(levers)))
    names = {one.id for one in ladder.levers}
    booted: dict[str, list[set[str]]] = {line: [] for line in LINES}
    for line, on in runs_of(ladder, planned(ladder), seed):
        booted[line].append(set(on))
    assert len({len(found) for found in booted.values()}) == 1
    for found in booted.values():
        assert found[0] == set()
        pairs = [pair for at, pair in enumerate(pairwise(found[1:])) if at % 2 == 0]
        assert all(one | other == names and not one & other for one, other in pairs)
        for name in names:
            assert sum(name in run for pair in pairs for run in pair) == len(pairs)


def test_together_the_lines_have_been_through_a_whole_block_first(twelve: Ladder, planned: Planner) -> None:
    """The first twelve runs of the two lines are the 24 of the block: levers orthogonal to each other over both."""
    booted: dict[str, list[On]] = {line: [] for line in LINES}
    for line, on in runs_of(twelve, planned(twelve), 5):
        booted[line].append(on)
    whole = [set(on) for found in booted.values() for on in found[1:13]]
    for one in twelve.levers:
        for other in twelve.levers:
            both = sum({one.id, other.id} <= run for run in whole)
            assert both == (12 if one is other else 6)


@pytest.mark.parametrize("seed", range(8))
def test_verdicts_do_not_depend_on_who_finishes_first(twelve: Ladder, planned: Planner, seed: int) -> None:
    """Whatever the boots' durations, the same boots and the same verdicts."""
    plan = planned(twelve)
    spoilt = {5: "void", 9: "failed", 10: "void", 14: "void"}
    calm, _ = climbed(twelve, plan, Crew(lines_of(8, spoilt=spoilt), {"A": 20, "B": 20}))
    wild, _ = climbed(twelve, plan, Crew(lines_of(8, spoilt=spoilt), {"A": 9, "B": 31}, jitter=seed + 1))
    assert wild.verdicts == calm.verdicts
    assert wild.confirmed == calm.confirmed
    for line in LINES:
        assert wild.on(line) == calm.on(line)


@pytest.mark.parametrize("seed", range(20))
def test_a_climb_cut_anywhere_goes_on_to_the_same_end(twelve: Ladder, planned: Planner, seed: int) -> None:
    """A boot under way is lost on both lines; nothing else is booted twice, and no verdict is changed or told twice."""
    plan, place = planned(twelve), random.Random(seed)  # noqa: S311 - a place to cut at
    spoilt = {5: "void", 11: "failed", 12: "void"} if seed % 2 else {}
    whole, events = climbed(twelve, plan, Crew(lines_of(seed, spoilt=spoilt), {"A": 20, "B": 23}))
    kept = events[: place.randint(0, len(events))]
    past = happened(kept)
    rest: list[Event | Verdict] = []
    crew = Crew(lines_of(seed, spoilt=spoilt), {"A": 20, "B": 23}, past)
    again = joint.climb(twelve, course_of(plan), past, crew, rest.append, told=len(kept) - len(past))
    assert again.verdicts == whole.verdicts
    assert again.confirmed == whole.confirmed
    assert [one for one in (*kept, *rest) if isinstance(one, Verdict)] == list(whole.verdicts)
    for line in LINES:
        assert again.on(line) == whole.on(line)


def test_a_line_whose_base_fails_lets_the_other_go_on(twelve: Ladder, planned: Planner) -> None:
    """Three failed boots of the base of line B; line A climbs on alone to the right verdicts."""
    lines = lines_of()
    lines["B"] = Line(effects={}, spoilt=dict.fromkeys(range(1, 99), "failed"))
    end, _ = climbed(twelve, planned(twelve), Crew(lines, {"A": 20, "B": 5}))
    assert (end.end, sorted(end.stack)) == ("done", ["l1", "l4"])
    assert end.away["B"].startswith("base failed 3 times in a row")
    assert Counter(one.line for one in end.trials)["B"] == 3
    assert end.confirmed.keys() == {"A"}


def test_no_line_left_ends_the_climb(twelve: Ladder, planned: Planner) -> None:
    """The base fails everywhere: nothing can be judged, and every line's reason is told."""
    lines = {line: Line(effects={}, spoilt=dict.fromkeys(range(1, 99), "failed")) for line in LINES}
    end, _ = climbed(twelve, planned(twelve), Crew(lines, {"A": 20, "B": 5}))
    assert (end.end, len(end.trials), end.stack) == ("base", 6, ())
    assert "line A: base failed" in end.why
    assert "line B: base failed" in end.why


def test_a_line_that_goes_away_comes_back_from_a_stage_on(twelve: Ladder, planned: Planner) -> None:
    """Line B leaves at its 15th boot and is taken in again; what it booted counts, and the record replays to the same state."""
    plan = planned(twelve)
    crew = Crew(lines_of(), {"A": 20, "B": 20}, lost={"B": 15})
    events: list[Event | Verdict] = []
    cut = joint.climb(
        twelve, course_of(plan), (), crew, events.append, enough=lambda trials: len(trials) >= 40
    )
    assert "B" in cut.away
    past = happened(events)
    state = together.follow(joint.start(course_of(plan), twelve), past)
    back = Back(line="B", stage=together.standings(state).stage + 1)
    end = joint.climb(
        twelve, course_of(plan), (*past, back), Crew(lines_of(), {"A": 20, "B": 20}, past), events.append
    )
    assert end.away == {}
    assert sorted(end.stack) == ["l1", "l4"]
    assert Counter(one.line for one in end.trials)["B"] > 15
    replayed = together.follow(
        joint.start(course_of(plan), twelve), (*past, back, *happened(events)[len(past) :])
    )
    assert together.standings(replayed).verdicts == end.verdicts


def test_a_lever_that_gains_on_one_line_and_loses_on_the_other_is_named(
    twelve: Ladder, planned: Planner
) -> None:
    """It is not accepted for its mean; the verdict says what each line reads."""
    effects = {
        "A": {**EFFECTS, "l2": (0.14, 0.14, 0.0)},
        "B": {**EFFECTS, "l2": (-0.05, -0.05, 0.0)},
    }
    end, _ = climbed(twelve, planned(twelve), Crew(lines_of(effects=effects), {"A": 20, "B": 20}))
    verdict = next(one for one in end.verdicts if one.lever == "l2")
    assert verdict.verdict == "inconclusive"
    assert "the lines disagree on c1" in verdict.why
    assert "on A" in verdict.why
    assert verdict.by_line["A"]["c1"].estimate > 1 > verdict.by_line["B"]["c1"].estimate
    assert sorted(end.stack) == ["l1", "l4"]


def test_a_lever_that_breaks_one_line_only_is_rejected_and_says_where(
    twelve: Ladder, planned: Planner
) -> None:
    """It comes up on line A and never on B: a common stack cannot hold it."""
    lines = lines_of()
    lines["B"] = Line(effects=EFFECTS, seed=2, breaks={frozenset({"l9"}): "failed"})
    end, _ = climbed(twelve, planned(twelve), Crew(lines, {"A": 20, "B": 20}))
    verdict = next(one for one in end.verdicts if one.lever == "l9")
    assert verdict.verdict == "reject"
    assert verdict.why.startswith("on line B: failed")
    assert sorted(end.stack) == ["l1", "l4"]


def test_a_budget_counts_boots_of_both_lines(twelve: Ladder, planned: Planner) -> None:
    """Nine boots are wanted in all, and nine are made."""
    crew = Crew(lines_of(), {"A": 20, "B": 20})
    end = joint.climb(
        twelve,
        course_of(planned(twelve)),
        (),
        crew,
        lambda _: None,
        enough=lambda trials: len(trials) >= 9,
    )
    assert (end.end, len(end.trials)) == ("budget", 9)
    assert "stopped before" in end.why


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.randoms(use_true_random=False), cut=st.integers(0, 80))
def test_the_record_may_be_read_in_any_order_of_the_lines(
    planned: Planner, twelve: Ladder, order: random.Random, cut: int
) -> None:
    """Each line's own order is kept; how the two are interleaved changes nothing."""
    plan = planned(twelve)
    past = history(plan, twelve)[:cut]
    queues = {line: [one for one in past if one.line == line] for line in LINES}
    shuffled: list[Event] = []
    while any(queues.values()):
        line = order.choice([name for name, left in queues.items() if left])
        shuffled.append(queues[line].pop(0))
    fresh = joint.start(course_of(plan), twelve)
    straight = together.follow(fresh, past)
    mixed = together.follow(fresh, tuple(shuffled))
    assert (mixed.common, mixed.legs, mixed.stage) == (straight.common, straight.legs, straight.stage)


_HISTORIES: dict[int, tuple[Event, ...]] = {}


def history(plan: Plan, ladder: Ladder) -> tuple[Event, ...]:
    """One climb's events, made once."""
    if not _HISTORIES:
        spoilt = {6: "void", 17: "failed"}
        _HISTORIES[0] = happened(
            climbed(ladder, plan, Crew(lines_of(5, spoilt=spoilt), {"A": 20, "B": 27}))[1]
        )
    return _HISTORIES[0]
