"""The ritual with a scripted Ansible: what it does when a step on the nodes does not go well."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from bootcheck.floors import Floors
from launcher import boot as ritual
from launcher.recipe import Recipe
from sparkctl import ansible
from sparkctl.ansible import Answer, Status
from sparkctl.clock import PacedClock
from sparkctl.errors import Interrupted
from sparkctl.line import Line


@dataclass
class Nodes:
    """Stands at the Ansible doorway: every playbook succeeds on a healthy line unless a test says otherwise."""

    healthy: Callable[[Line], tuple[Answer, ...]]
    played: list[str] = field(default_factory=list)
    answers: dict[str, Callable[[Line], tuple[Answer, ...]]] = field(default_factory=dict)

    def run(
        self, playbook: str, line: Line, _: Mapping[str, object], *, report: Callable[[Answer], None]
    ) -> tuple[Answer, ...]:
        """Answer as ansible.run does."""
        self.played.append(playbook)
        made = self.answers.get(playbook, self.healthy)(line)
        for answer in made:
            report(answer)
        return made


def _answer(host: str, status: Status = "ok", message: str = "", **result: object) -> Answer:
    return Answer(
        host=host, task="t", status=status, changed=False, message=message, seconds=0.0, result=result
    )


def _one(host: str, status: Status, message: str, **result: object) -> Callable[[Line], tuple[Answer, ...]]:
    return lambda _: (_answer(host, status, message, **result),)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, healthy_probes: Callable[[Line, str], object]) -> Nodes:
    """A healthy line behind the doorway."""
    made = Nodes(
        healthy=lambda line: tuple(
            _answer(node.name, probes=healthy_probes(line, node.name)) for node in line.nodes
        )
    )
    monkeypatch.setattr(ansible, "run", made.run)
    return made


@pytest.fixture
def plan(line: Line, recipe: Recipe) -> ritual.Plan:
    """A boot of the recipe that ships."""
    return ritual.Plan(boot="boot-1", line=line, recipe=recipe, floors=Floors())


CLOCK = PacedClock(pace=1000.0)


def test_a_failed_gate_touches_nothing(nodes: Nodes, plan: ritual.Plan) -> None:
    """A node that cannot be reached ends the boot at the first probe; no other playbook runs."""
    nodes.answers["probe"] = _one(
        "spark-a1", "unreachable", "ssh: connect to host x port 22: Connection refused"
    )
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert (ended.ok, ended.unclear, ended.stage) == (False, True, "check")
    assert nodes.played == ["probe"]


def test_a_rank_that_does_not_start_stops_the_others(nodes: Nodes, plan: ritual.Plan) -> None:
    """The first fault is told with the rank's log, and the ranks that did start are stopped."""
    nodes.answers["launch"] = _one(
        "spark-a2", "failed", "sparkctl-a-rank2 is exited", stderr="line 1\nValueError: no"
    )
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert (ended.stage, ended.node, ended.why) == ("launch", "spark-a2", "sparkctl-a-rank2 is exited")
    assert ended.log == ("line 1", "ValueError: no")
    assert not ended.unclear
    assert nodes.played == ["probe", "boot", "launch", "stop"]


def test_a_node_lost_during_the_launch_proves_nothing(nodes: Nodes, plan: ritual.Plan) -> None:
    """An unreachable node is unclear (exit 3), so that no lever is blamed for it; the others are stopped."""
    nodes.answers["launch"] = _one(
        "spark-a3", "unreachable", "ssh: connect to host x port 22: Connection timed out"
    )
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert (ended.ok, ended.unclear) == (False, True)
    assert nodes.played[-1] == "stop"


def test_a_refused_cache_drop_is_a_warning(nodes: Nodes, plan: ritual.Plan) -> None:
    """Whoever lacks the sudo rule reads it before memory runs short; whether memory suffices the gate says."""
    healthy = nodes.healthy

    def refuse(line: Line) -> tuple[Answer, ...]:
        refused = _answer("spark-a1", dropped=False, reason="sudo: a password is required")
        dropped = _answer("spark-a0", dropped=True, reason="")
        small = _answer("spark-a2", dropped=False, reason="")
        return (refused, dropped, small, *healthy(line))

    nodes.answers["boot"] = refuse
    nodes.answers["launch"] = _one("spark-a2", "failed", "far enough")
    told: list[ritual.Progress] = []
    ritual.boot(plan, CLOCK, told.append)
    warnings = [one.detail for one in told if one.state == "warns"]
    assert warnings == ["spark-a1: the page cache was not dropped: sudo: a password is required"]


def test_a_stop_that_fails_is_told_beside_the_first_fault(nodes: Nodes, plan: ritual.Plan) -> None:
    """Whoever reads why the boot failed also reads that a rank may still run, and where."""
    nodes.answers["launch"] = _one("spark-a2", "failed", "it died")
    nodes.answers["stop"] = _one("spark-a1", "unreachable", "Connection timed out")
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert ended.why == "it died"
    assert "stopping failed on spark-a1 (no answer in time)" in ended.hint


@pytest.mark.parametrize("playbook", ["boot", "launch"])
def test_an_interrupt_stops_every_rank_twice(nodes: Nodes, plan: ritual.Plan, playbook: str) -> None:
    """Once settling began an interrupt leaves nothing: neither half an old line nor a rank that started late."""

    def interrupt(_: Line) -> tuple[Answer, ...]:
        raise Interrupted("interrupted")

    nodes.answers[playbook] = interrupt
    with pytest.raises(Interrupted):
        ritual.boot(plan, CLOCK, lambda _: None)
    assert nodes.played[-2:] == ["stop", "stop"]


def test_any_fault_of_ours_still_stops_the_ranks(nodes: Nodes, plan: ritual.Plan) -> None:
    """Even an exception that nobody foresaw does not leave ranks behind."""

    def break_off(_: Line) -> tuple[Answer, ...]:
        raise RuntimeError("unforeseen")

    nodes.answers["launch"] = break_off
    with pytest.raises(RuntimeError, match="unforeseen"):
        ritual.boot(plan, CLOCK, lambda _: None)
    assert nodes.played[-1] == "stop"
