"""The ritual with a scripted Ansible: what it does when a step on the nodes does not go well."""

import dataclasses
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from bootcheck.floors import Floors
from bootcheck.probes.table import lasting, loading, requested
from launcher import boot as ritual
from launcher import tails
from launcher.guard import Fault, Watched
from launcher.plan import Plan, Progress
from launcher.recipe import Recipe
from launcher.tails import Tail
from launcher.watermark import Trip
from sparkctl import ansible
from sparkctl.ansible import Answer, Status
from sparkctl.clock import PacedClock
from sparkctl.errors import Interrupted, LedgerFault
from sparkctl.line import Line


@dataclass
class Nodes:
    """Stands at the Ansible doorway: every playbook succeeds on a healthy line unless a test says otherwise."""

    healthy: Callable[[Line], tuple[Answer, ...]]
    played: list[str] = field(default_factory=list)
    given: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    answers: dict[str, Callable[[Line], tuple[Answer, ...]]] = field(default_factory=dict)

    def run(
        self, playbook: str, line: Line, variables: Mapping[str, object], *, report: Callable[[Answer], None]
    ) -> tuple[Answer, ...]:
        """Answer as ansible.run does."""
        self.played.append(playbook)
        self.given[playbook] = variables
        made = self.answers.get(playbook, self.healthy)(line)
        for answer in made:
            report(answer)
        return made

    def tails(self, line: Line) -> tuple[Tail, ...]:
        """Answer as tails.read does: a rank that was never made has no log, and after a stop none has."""
        gone = "stop" in self.played
        return tuple(
            Tail(node=node.name, fault="no such container", is_gone=True)
            if gone or not node.rank
            else Tail(node=node.name, lines=(f"{node.name} loads",))
            for node in line.nodes
        )


def _answer(host: str, status: Status = "ok", message: str = "", **result: object) -> Answer:
    return Answer(
        host=host, task="t", status=status, changed=False, message=message, seconds=0.0, result=result
    )


def _one(host: str, status: Status, message: str, **result: object) -> Callable[[Line], tuple[Answer, ...]]:
    return lambda _: (_answer(host, status, message, **result),)


@dataclass
class Watching:
    """Stands for the guard: sees nothing, unless a test says that it cannot see or that it stopped the ranks."""

    fault: Fault | None = None
    trip: Trip | None = None
    news: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def tell(self) -> None:
        """Has nothing to tell."""

    def tripped(self) -> Trip | None:
        """Say whether every rank was stopped."""
        return self.trip

    def watched(self) -> Watched:
        """Say how low memory went."""
        return Watched(lowest={"spark-a1": 7}, flushes={})

    def moved(self) -> dict[str, float]:
        """Say when memory moved."""
        return {}


@pytest.fixture(autouse=True)
def guard(monkeypatch: pytest.MonkeyPatch) -> Watching:
    """Put a guard without nodes in the place of the real one."""
    made = Watching()
    monkeypatch.setattr(ritual, "Guard", lambda *_: made)
    return made


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, healthy_probes: Callable[[Line, str], object]) -> Nodes:
    """A healthy line behind the doorway."""
    made = Nodes(
        healthy=lambda line: tuple(
            _answer(node.name, probes=healthy_probes(line, node.name)) for node in line.nodes
        )
    )
    monkeypatch.setattr(ansible, "run", made.run)
    monkeypatch.setattr(tails, "read", made.tails)
    return made


@pytest.fixture
def plan(line: Line, recipe: Recipe) -> Plan:
    """A boot of the recipe that ships."""
    return Plan(boot="boot-1", line=line, recipe=recipe, floors=Floors())


CLOCK = PacedClock(pace=1000.0)


def test_a_failed_gate_touches_nothing(nodes: Nodes, plan: Plan) -> None:
    """A node that cannot be reached ends the boot at the first probe; no other playbook runs."""
    nodes.answers["probe"] = _one(
        "spark-a1", "unreachable", "ssh: connect to host x port 22: Connection refused"
    )
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert (ended.ok, ended.unclear, ended.stage) == (False, True, "check")
    assert nodes.played == ["probe"]
    assert not ended.logs


def test_a_rank_that_does_not_start_stops_the_others(nodes: Nodes, plan: Plan) -> None:
    """The first fault is told with the rank's log, and the ranks that did start are stopped."""
    nodes.answers["launch"] = _one(
        "spark-a2", "failed", "sparkctl-a-rank2 is exited", stderr="line 1\nValueError: no"
    )
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert (ended.stage, ended.node, ended.why) == ("launch", "spark-a2", "sparkctl-a-rank2 is exited")
    assert ended.log == ("line 1", "ValueError: no")
    assert not ended.unclear
    assert nodes.played == ["probe", "boot", "launch", "stop"]
    assert ended.logs == {node.name: (f"{node.name} loads",) for node in plan.line.nodes[1:]}


def test_a_rank_that_dies_at_once_is_diagnosed(nodes: Nodes, plan: Plan) -> None:
    """What its log says of memory comes as figures and a remedy, as it would while it loads."""
    said = (
        "ValueError: Free memory on device cuda:0 (55.91/119.58 GiB) on startup is less than desired GPU memory utilization "
        "(0.5, 59.79 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    nodes.answers["launch"] = _one("spark-a2", "failed", "sparkctl-a-rank2 is exited", stderr=said)
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert ended.why == "sparkctl-a-rank2 is exited"
    assert "55.9" in ended.hint
    assert "0.46" in ended.hint, "the highest utilisation that passes"


def test_a_node_lost_during_the_launch_proves_nothing(nodes: Nodes, plan: Plan) -> None:
    """An unreachable node is unclear (exit 3), so that no lever is blamed for it; the others are stopped."""
    nodes.answers["launch"] = _one(
        "spark-a3", "unreachable", "ssh: connect to host x port 22: Connection timed out"
    )
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert (ended.ok, ended.unclear) == (False, True)
    assert nodes.played[-1] == "stop"


def test_a_refused_cache_drop_is_a_warning(nodes: Nodes, plan: Plan) -> None:
    """Whoever lacks the sudo rule reads it before memory runs short; whether memory suffices the gate says."""
    healthy = nodes.healthy

    def refuse(line: Line) -> tuple[Answer, ...]:
        refused = _answer("spark-a1", dropped=False, reason="sudo: a password is required")
        dropped = _answer("spark-a0", dropped=True, reason="")
        small = _answer("spark-a2", dropped=False, reason="")
        return (refused, dropped, small, *healthy(line))

    nodes.answers["boot"] = refuse
    nodes.answers["launch"] = _one("spark-a2", "failed", "far enough")
    told: list[Progress] = []
    ritual.boot(plan, CLOCK, told.append)
    warnings = [one.detail for one in told if one.state == "warns"]
    assert warnings == ["spark-a1: the page cache was not dropped: sudo: a password is required"]


def test_a_stop_that_fails_is_told_beside_the_first_fault(nodes: Nodes, plan: Plan) -> None:
    """Whoever reads why the boot failed also reads that a rank may still run, and where."""
    nodes.answers["launch"] = _one("spark-a2", "failed", "it died")
    nodes.answers["stop"] = _one("spark-a1", "unreachable", "Connection timed out")
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert ended.why == "it died"
    assert "stopping failed on spark-a1 (no answer in time)" in ended.hint


@pytest.mark.parametrize("playbook", ["boot", "launch"])
def test_an_interrupt_stops_every_rank_twice(nodes: Nodes, plan: Plan, playbook: str) -> None:
    """Once settling began an interrupt leaves nothing: neither half an old line nor a rank that started late."""

    def interrupt(_: Line) -> tuple[Answer, ...]:
        raise Interrupted("interrupted")

    nodes.answers[playbook] = interrupt
    with pytest.raises(Interrupted):
        ritual.boot(plan, CLOCK, lambda _: None)
    assert nodes.played[-2:] == ["stop", "stop"]


@pytest.mark.parametrize("lost", [OSError(5, "Input/output error"), LedgerFault("the disk is full")])
def test_whoever_cannot_be_told_does_not_keep_ranks_alive(nodes: Nodes, plan: Plan, lost: Exception) -> None:
    """A dead terminal or a full disk breaks the boot off, and the clean-up that cannot be told of happens all the same."""

    def report(progress: Progress) -> None:
        if progress.stage in {"launch", "stop"}:
            raise lost

    with pytest.raises(type(lost)):
        ritual.boot(plan, CLOCK, report)
    assert nodes.played[-2:] == ["stop", "stop"]


def test_any_fault_of_ours_still_stops_the_ranks(nodes: Nodes, plan: Plan) -> None:
    """Even an exception that nobody foresaw does not leave ranks behind."""

    def break_off(_: Line) -> tuple[Answer, ...]:
        raise RuntimeError("unforeseen")

    nodes.answers["launch"] = break_off
    with pytest.raises(RuntimeError, match="unforeseen"):
        ritual.boot(plan, CLOCK, lambda _: None)
    assert nodes.played[-1] == "stop"


def test_without_a_guard_nothing_is_launched(nodes: Nodes, plan: Plan, guard: Watching) -> None:
    """A node whose memory cannot be watched ends the boot before a rank starts; nothing can be said of the recipe."""
    guard.fault = Fault(node="spark-a3", said="its memory cannot be guarded: no sample", hint="look there")
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert (ended.stage, ended.node, ended.unclear) == ("launch", "spark-a3", True)
    assert nodes.played == ["probe", "boot", "stop"]


def test_what_the_guard_stopped_is_what_is_told(nodes: Nodes, plan: Plan, guard: Watching) -> None:
    """The launch that fails because the guard killed a rank tells of the memory, not of the rank."""
    guard.trip = Trip(
        node="spark-a1",
        why="memory",
        said="0.6 GiB MemAvailable on spark-a1, wanted at least 4.0 GiB",
        hint="lower memory.utilisation",
        samples=("one", "two"),
    )
    nodes.answers["launch"] = _one("spark-a1", "failed", "sparkctl-a-rank1 is exited")
    ended = ritual.boot(plan, CLOCK, lambda _: None)
    assert "the guard stopped every rank: 0.6 GiB" in ended.why
    assert (ended.node, ended.log, ended.lowest) == ("spark-a1", ("one", "two"), {"spark-a1": 7})
    assert nodes.played[-1] == "stop"


def test_a_resumed_boot_goes_on_from_the_launch(nodes: Nodes, plan: Plan) -> None:
    """What is proven is not done again: no probe, no settling, no stop of the ranks that run."""
    nodes.answers["launch"] = _one("spark-a2", "failed", "far enough")
    ritual.boot(dataclasses.replace(plan, start="launch"), CLOCK, lambda _: None)
    assert nodes.played == ["launch", "stop"]


def test_what_settling_cannot_change_is_not_asked_twice(nodes: Nodes, plan: Plan) -> None:
    """The second look asks for what moves, and for what a node did not answer; memory is always asked again."""
    nodes.answers["launch"] = _one("spark-a2", "failed", "far enough")
    ritual.boot(plan, CLOCK, lambda _: None)
    first, again = (
        {row["probe"] for row in nodes.given[book]["probe_tables"]["spark-a0"]} for book in ("probe", "boot")
    )
    assert loading() - requested() <= first | {"nccl-tests"}
    assert again == first - lasting()
    assert {"memory", "containers", "processes"} <= again


def test_only_apply_changes_links(nodes: Nodes, plan: Plan) -> None:
    """Without --apply the settling play has no interface to touch."""
    nodes.answers["launch"] = _one("spark-a2", "failed", "far enough")
    ritual.boot(plan, CLOCK, lambda _: None)
    assert "apply_links" not in nodes.given["boot"]
    ritual.boot(dataclasses.replace(plan, apply=True), CLOCK, lambda _: None)
    assert set(nodes.given["boot"]["apply_links"]) == {f"spark-a{rank}" for rank in range(4)}
