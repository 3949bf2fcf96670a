"""The guard with a scripted shell: what it does to the nodes, in which order, and what it gives back."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import pytest

from launcher import guard as guards
from launcher.command import RankCommand, rank_commands
from launcher.guard import FLUSH, SAMPLES, Guard
from launcher.recipe import Recipe
from launcher.watermark import Limits
from sparkctl.clock import PacedClock
from sparkctl.following import Stream
from sparkctl.line import Line
from sparkctl.shell import Said
from sparkctl.units import GIB

LIMITS = Limits(floor=4 * GIB, origin="test")
LOOKING_S = 5.0


def meminfo(free: float, available: float, anonymous: float = 3.0) -> list[str]:
    """Return the lines of /proc/meminfo; sizes in GiB."""
    rows = {"MemTotal": 121.69, "MemFree": free, "MemAvailable": available, "AnonPages": anonymous}
    return [f"{name + ':':<15}{int(size * 1024**2):>9} kB" for name, size in rows.items()]


@dataclass
class Nodes:
    """Stands for the shell: what each node says at once, how its stream stands, and what is run on it."""

    first: dict[str, list[str]]
    streams: dict[str, Stream] = field(default_factory=dict)
    answers: dict[str, Said] = field(default_factory=dict)
    ran: list[dict[str, Sequence[str]]] = field(default_factory=list)
    followed: dict[str, Sequence[str]] = field(default_factory=dict)
    resumed: int = 0
    closed: list[str] = field(default_factory=list)
    take: Callable[[str, str], None] = lambda *_: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.append("shell")

    def follow(self, commands: Mapping[str, Sequence[str]], take: Callable[[str, str], None]) -> "Lines":
        """Hand the first lines on as the threads of a real shell would."""
        self.followed, self.take = dict(commands), take
        for node, lines in self.first.items():
            self.say(node, lines)
        return Lines(self)

    def say(self, node: str, lines: list[str]) -> None:
        """Let a node say something."""
        for line in lines:
            self.take(node, line)

    def run_each(self, commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        """Answer as Shell.run_each does."""
        self.ran.append(dict(commands))
        good = Said(node="", rc=0, stdout="", stderr="")
        return tuple(replace(self.answers.get(node, good), node=node) for node in commands)


@dataclass
class Lines:
    """Stands for what is followed."""

    nodes: Nodes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.nodes.closed.append("following")

    def streams(self) -> tuple[Stream, ...]:
        """Return how each stream stands."""
        return tuple(
            self.nodes.streams.get(node, Stream(node=node, silent_s=0.0)) for node in self.nodes.followed
        )

    def resume(self, *, ended: bool) -> None:
        """Count."""
        self.nodes.resumed += ended


@pytest.fixture
def nodes(line: Line, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """A healthy line behind the doorway; the guard looks and tries again quickly."""
    made = Nodes(first={node.name: meminfo(90.0, 100.0) for node in line.nodes})
    monkeypatch.setattr(guards, "Shell", lambda _: made)
    monkeypatch.setattr(guards, "_TICK_S", 0.005)
    monkeypatch.setattr(guards, "_AGAIN_S", 0.02)
    return made


@pytest.fixture
def commands(line: Line, recipe: Recipe) -> tuple[RankCommand, ...]:
    """Every rank's command."""
    return rank_commands(recipe, line, "boot-1")


Made = Callable[..., Guard]


@pytest.fixture
def told() -> list[str]:
    """What the guard reports."""
    return []


@pytest.fixture
def made(line: Line, commands: tuple[RankCommand, ...], nodes: Nodes, told: list[str]) -> Made:
    """Return a maker of guards over that line."""
    assert nodes

    def make(limits: Limits = LIMITS) -> Guard:
        return Guard(line, commands, limits, PacedClock(pace=10.0), told.append)

    return make


def becomes(is_so: Callable[[], bool]) -> bool:
    """Whether something comes true soon."""
    until = time.monotonic() + LOOKING_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.002)
    return is_so()


def kills(nodes: Nodes) -> list[dict[str, Sequence[str]]]:
    """Return the rounds of docker kill."""
    return [one for one in nodes.ran if all(argv[:2] == ("docker", "kill") for argv in one.values())]


def test_a_healthy_line_is_left_alone(made: Made, nodes: Nodes, told: list[str]) -> None:
    """Every node is sampled, nothing is run, and how low each went is kept; all ends with the block."""
    before = set(threading.enumerate())
    with made() as guard:
        assert guard.fault is None
        nodes.say("spark-a1", meminfo(40.0, 50.0))
        nodes.say("spark-a1", meminfo(60.0, 70.0))
        assert guard.tripped() is None
    assert nodes.followed == dict.fromkeys(nodes.first, SAMPLES)
    assert (nodes.ran, told) == ([], [])
    lowest = guard.watched().lowest
    assert [round(size / GIB) for size in lowest.values()] == [100, 50, 100, 100]
    assert nodes.closed == ["following", "shell"]
    assert becomes(lambda: set(threading.enumerate()) <= before)


def test_the_floor_stops_every_rank_before_anything_else(
    made: Made, nodes: Nodes, commands: tuple[RankCommand, ...]
) -> None:
    """One sample on one node is enough: one round of docker kill, on all nodes at once, by the thread that read it."""
    with made() as guard:
        nodes.say("spark-a2", meminfo(1.0, 10.0))
        nodes.ran.clear()
        nodes.say("spark-a2", meminfo(1.0, 3.5))
        assert nodes.ran[0] == {one.node: ("docker", "kill", one.name) for one in commands}
        assert guard.news.is_set()
        trip = guard.tripped()
    assert trip is not None
    assert (trip.node, trip.why, trip.left) == ("spark-a2", "memory", ())
    assert "fell to 3.5 GiB; wanted at least 4.0 GiB" in trip.said
    assert len(trip.samples) == 3


def test_a_stop_that_is_not_confirmed_is_told(made: Made, nodes: Nodes) -> None:
    """A node without such a container has nothing to stop; one that did not answer may still run its rank."""
    nodes.answers = {
        "spark-a0": Said(node="", rc=1, stdout="", stderr="Error response from daemon: No such container: x"),
        "spark-a1": Said(node="", rc=None, stdout="", stderr="no answer within 15 s: timed out"),
        "spark-a3": Said(
            node="", rc=1, stdout="", stderr="cannot kill container: x: container 1 is not running"
        ),
    }
    with made() as guard:
        nodes.say("spark-a2", meminfo(1.0, 3.5))
        trip = guard.tripped()
    assert trip is not None
    assert trip.left == ("spark-a1",)


def test_a_rank_that_is_started_late_is_stopped_too(made: Made, nodes: Nodes) -> None:
    """A launch that was under way goes on after the trip; while the guard lasts it stops what answers, again and again."""
    with made() as guard:
        nodes.say("spark-a2", meminfo(1.0, 3.5))
        assert becomes(lambda: len(kills(nodes)) >= 2)
        assert guard.tripped() is not None
    assert kills(nodes)[1] == kills(nodes)[0]


def test_tripped_waits_for_the_stop(made: Made, nodes: Nodes) -> None:
    """Whoever is told of the trip may rely on the ranks being stopped."""
    killing, done = threading.Event(), threading.Event()

    def slow(commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        killing.set()
        done.wait(LOOKING_S)
        return tuple(Said(node=node, rc=0, stdout="", stderr="") for node in commands)

    nodes.run_each = slow  # type: ignore[method-assign]
    with made() as guard:
        reading = threading.Thread(target=nodes.say, args=("spark-a2", meminfo(1.0, 3.5)))
        reading.start()
        assert killing.wait(LOOKING_S)
        asking = threading.Thread(target=guard.tripped)
        asking.start()
        asking.join(0.02)
        assert asking.is_alive()
        done.set()
        asking.join(LOOKING_S)
        reading.join(LOOKING_S)
        assert not asking.is_alive()


def test_observing_never_stops_anything(made: Made, nodes: Nodes, told: list[str]) -> None:
    """It tells once a node, remembers the trip that it would have been, and goes on learning how low memory goes."""
    with made(replace(LIMITS, mode="observe")) as guard:
        for available in (3.5, 3.0, 2.5):
            nodes.say("spark-a2", meminfo(2.4, available))
        assert guard.tripped() is None
        guard.tell()
        assert len(told) == 1
    assert "spark-a2: MemAvailable fell to 3.5 GiB" in told[0]
    assert "nothing was stopped" in told[0]
    assert kills(nodes) == []
    watched = guard.watched()
    assert [one.node for one in watched.observed] == ["spark-a2"]
    assert watched.lowest["spark-a2"] / GIB == pytest.approx(2.5, abs=0.01)


def test_page_cache_is_flushed_on_the_node_that_needs_it(made: Made, nodes: Nodes) -> None:
    """Little free and much available: one flush there, counted, and not again within two seconds."""
    with made() as guard:
        for _ in range(3):
            nodes.say("spark-a1", meminfo(1.0, 20.0))
        assert becomes(lambda: guard.watched().flushes == {"spark-a1": 1})
    assert nodes.ran == [{"spark-a1": FLUSH}]


def test_a_refused_flush_is_told_once_and_not_tried_again(
    made: Made, nodes: Nodes, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy is the sudo rule; the guard itself goes on."""
    monkeypatch.setattr("launcher.watermark.FLUSH_PAUSE_S", 0.0)
    nodes.answers["spark-a1"] = Said(node="", rc=1, stdout="", stderr="sudo: a password is required")
    with made() as guard:
        nodes.say("spark-a1", meminfo(1.0, 20.0))
        assert becomes(guard.news.is_set)
        nodes.say("spark-a1", meminfo(1.0, 20.0))
        assert guard.tripped() is None
    assert len(nodes.ran) == 1
    assert len(told) == 1
    assert "spark-a1: page cache was not flushed" in told[0]
    assert "sudo asks for a password" in told[0]
    assert 'sh -c "echo 1 > /proc/sys/vm/drop_caches"' in told[0]


def test_a_flush_without_an_answer_may_be_tried_again(
    made: Made, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that was only slow has not refused anything."""
    monkeypatch.setattr("launcher.watermark.FLUSH_PAUSE_S", 0.0)
    nodes.answers["spark-a1"] = Said(node="", rc=None, stdout="", stderr="timed out")
    with made():
        nodes.say("spark-a1", meminfo(1.0, 20.0))
        nodes.say("spark-a1", meminfo(1.0, 20.0))
        assert becomes(lambda: len(nodes.ran) == 2)


def test_a_slow_flush_is_the_only_one_and_the_last(
    made: Made, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is under way no other is begun on that node, and nothing is worked off once the guard has ended."""
    monkeypatch.setattr("launcher.watermark.FLUSH_PAUSE_S", 0.0)
    flushing, done = threading.Event(), threading.Event()
    flushed: list[str] = []

    def slow(commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        flushed.extend(commands)
        flushing.set()
        done.wait(LOOKING_S)
        return tuple(Said(node=node, rc=0, stdout="", stderr="") for node in commands)

    nodes.run_each = slow  # type: ignore[method-assign]
    with made() as guard:
        for _ in range(5):
            nodes.say("spark-a1", meminfo(1.0, 20.0))
        assert flushing.wait(LOOKING_S)
        nodes.say("spark-a1", meminfo(1.0, 20.0))
        done.set()
        assert becomes(lambda: guard.watched().flushes == {"spark-a1": 1})
        assert flushed == ["spark-a1"]
    assert flushed == ["spark-a1"]


def test_a_flush_that_broke_off_may_be_tried_again(
    made: Made, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever went wrong with it, its node is not taken for one that is being flushed for ever."""
    monkeypatch.setattr("launcher.watermark.FLUSH_PAUSE_S", 0.0)
    tries: list[str] = []

    def broken(commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        tries.extend(commands)
        raise RuntimeError("no")

    nodes.run_each = broken  # type: ignore[method-assign]
    with made() as guard:
        nodes.say("spark-a1", meminfo(1.0, 20.0))
        assert becomes(lambda: not guard._tracks["spark-a1"].is_flushing)
        nodes.say("spark-a1", meminfo(1.0, 20.0))
        assert becomes(lambda: len(tries) == 2)
        assert guard.watched().flushes == {}


def test_a_stop_that_broke_off_is_told_as_not_confirmed(made: Made, nodes: Nodes) -> None:
    """Nobody waits for ever for a stop that will not be told of; every node may still run its rank."""

    def broken(_: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        raise RuntimeError("no")

    with made() as guard:
        nodes.run_each = broken  # type: ignore[method-assign]
        guard._ending.set()
        with pytest.raises(RuntimeError):
            nodes.say("spark-a2", meminfo(1.0, 3.5))
        trip = guard.tripped()
    assert trip is not None
    assert trip.left == tuple(nodes.first)


@dataclass
class Now:
    """Seconds of ours as the guard sees them."""

    seconds: float = 0.0

    def monotonic(self) -> float:
        """Return them."""
        return self.seconds

    def passes(self, guard: Guard, seconds: float, talking: Sequence[str]) -> None:
        """Let time pass, at the end of which some nodes give a sample; the guard sees both at once."""
        with guard._lock:
            self.seconds += seconds
            for node in talking:
                for line in meminfo(90.0, 100.0):
                    guard._tracks[node].take(line, self.seconds, 0.0, LIMITS)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    """A time that only passes when a test says so."""
    made = Now()
    monkeypatch.setattr(guards, "time", made)
    return made


def test_a_node_that_falls_silent_is_told_then_stopped_for(
    made: Made, nodes: Nodes, told: list[str], now: Now
) -> None:
    """First a warning, later a trip in its own words; meanwhile its stream is started again."""
    others = ("spark-a0", "spark-a2", "spark-a3")
    with made() as guard:
        now.passes(guard, 11.0, others)
        assert becomes(guard.news.is_set)
        assert guard.tripped() is None
        now.passes(guard, 50.0, others)
        assert becomes(lambda: guard.tripped() is not None)
        trip = guard.tripped()
    assert trip is not None
    assert (trip.node, trip.why) == ("spark-a1", "silence")
    assert "no memory sample for 61 s, wanted one at least every 60 s: it may be wedged" in trip.said
    assert told == ["spark-a1: no memory sample for 11 s; the guard goes on trying"]
    assert nodes.resumed >= 1
    assert kills(nodes)


def test_when_all_fall_silent_it_is_the_network(made: Made, now: Now) -> None:
    """No node is blamed for a cable at the controller."""
    with made() as guard:
        now.passes(guard, 61.0, ())
        assert becomes(lambda: guard.tripped() is not None)
        trip = guard.tripped()
    assert trip is not None
    assert "none from any other node" in trip.said


def test_work_is_seen_in_the_lines_seconds(made: Made, nodes: Nodes) -> None:
    """When memory last moved, by the clock of the line; a node that stands still keeps its first moment."""
    with made() as guard:
        first = guard.moved()
        nodes.say("spark-a1", meminfo(80.0, 90.0))
        nodes.say("spark-a2", meminfo(90.0, 100.0))
        later = guard.moved()
    assert later["spark-a1"] > first["spark-a1"]
    assert later["spark-a2"] == first["spark-a2"]


@pytest.mark.parametrize(
    ("stream", "lines", "said", "hint"),
    [
        (
            Stream(
                node="spark-a1", silent_s=0.1, lost="NoValidConnectionsError: Unable to connect to port 22"
            ),
            [],
            "its memory cannot be guarded: the connection was refused",
            "runs sshd",
        ),
        (
            Stream(node="spark-a1", silent_s=0.1, rc=127),
            ["sh: 1: cat: not found"],
            "the command ended with 127, it last said 'sh: 1: cat: not found'",
            "cat /proc/meminfo must work there",
        ),
        (
            Stream(node="spark-a1", silent_s=0.1),
            ["MemTotal:   1000 kB"],
            "no sample within 0.05 s, it last said 'MemTotal:   1000 kB'",
            "AnonPages",
        ),
    ],
)
def test_a_node_that_cannot_be_guarded_is_a_value(  # noqa: PLR0913, PLR0917 - fixtures and cases
    made: Made,
    nodes: Nodes,
    monkeypatch: pytest.MonkeyPatch,
    stream: Stream,
    lines: list[str],
    said: str,
    hint: str,
) -> None:
    """Refused, no cat, no sample: the caller decides whether to launch without a guard."""
    monkeypatch.setattr(guards, "_FIRST_S", 0.05)
    nodes.first["spark-a1"] = lines
    nodes.streams["spark-a1"] = stream
    with made() as guard:
        assert guard.fault is not None
        assert guard.fault.node == "spark-a1"
        assert said in guard.fault.said
        assert hint in guard.fault.hint
    assert nodes.closed == ["following", "shell"]
