"""What containers, API and counters of a line amount to."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher import api, ranks, status
from launcher.api import Seen
from launcher.gauges import POWER_ARGV
from launcher.ranks import Inspected, Rank
from launcher.status import State, judge, observe
from sparkctl.line import Line, Node, Rail
from sparkctl.shell import Said

SERVES = Seen(health=200, serves=("m",))
SILENT = Seen(health=None)
LOCKED = Seen(health=401, is_locked=True)


def _ranks(*states: str) -> tuple[Rank, ...]:
    return tuple(Rank(node=f"n{at}", rank=at, state=state) for at, state in enumerate(states))


@pytest.mark.parametrize(
    ("states", "seen", "state", "says"),
    [
        (("running", "running"), SERVES, "serving", "every rank runs and the API answers"),
        (("running", "running"), SILENT, "loading", "does not answer yet"),
        (("running", "running"), Seen(health=200), "loading", "lists no model"),
        (
            ("running", "running"),
            LOCKED,
            "unclear",
            "the API is up, but it wants a key (401",
        ),
        (("running", "running"), Seen(health=200, is_locked=True), "unclear", "wants a key"),
        (("running", "running"), Seen(health=503), "broken", "/health says 503"),
        (("absent", "absent"), SILENT, "down", "no rank runs"),
        (("running", "exited"), SERVES, "broken", "n1 (exited); the API still answers, which proves nothing"),
        (("running", "exited"), LOCKED, "broken", "no running rank on n1"),
        (("running", "restarting"), SILENT, "broken", "no running rank on n1"),
        (("exited", "exited"), SILENT, "down", "no rank runs"),
        (("absent", "absent"), SERVES, "broken", "no running rank on n0"),
        (("absent", "absent"), LOCKED, "broken", "the API still answers"),
        (("running", "unreachable"), SERVES, "unclear", "no answer from n1"),
    ],
)
def test_a_line_is_what_all_its_ranks_are(
    states: tuple[str, ...], seen: Seen, state: State, says: str
) -> None:
    """A green API never makes up for a dead rank, a locked one is not down, and a silent node makes it unclear."""
    verdict = judge(_ranks(*states), seen)
    assert (verdict.state, says in verdict.note) == (state, True), verdict.note


def test_what_is_odd_about_a_rank_is_told_beside_the_state() -> None:
    """Exit code and time come in docker's words; a restart and a restart policy are named even while all serve."""
    dead = replace(_ranks("exited")[0], since="Exited (137) 3 minutes ago", note="ended by SIGKILL")
    broken = judge((*_ranks("running"), replace(dead, node="n1")), SILENT)
    assert "n1 (Exited (137) 3 minutes ago)" in broken.note
    assert "n1: ended by SIGKILL" in broken.note
    odd = replace(_ranks("running")[0], note="started again 3 times by docker")
    assert judge((odd,), SERVES).note.endswith("n0: started again 3 times by docker")


ROW = {
    "Names": "sparkctl-a-rank1",
    "State": "running",
    "Status": "Up 3 minutes",
    "Labels": "maker=NVIDIA,sparkctl.boot=boot-7,sparkctl.line=A,sparkctl.rank=1",
}
EXITED = {**ROW, "State": "exited", "Status": "Exited (137) 2 hours ago"}


@pytest.mark.parametrize(
    ("rc", "stdout", "stderr", "rank"),
    [
        (0, json.dumps(ROW), "", {"state": "running", "since": "Up 3 minutes", "boot": "boot-7"}),
        (0, json.dumps(EXITED), "", {"state": "exited", "exit_code": 137}),
        (0, f"{json.dumps(EXITED)}\n{json.dumps(ROW)}\n", "", {"state": "running", "exit_code": None}),
        (
            0,
            json.dumps({**ROW, "State": "restarting", "Status": "Restarting (1) 5 seconds ago"}),
            "",
            {"exit_code": 1},
        ),
        (0, "", "", {"state": "absent"}),
        (0, "NAME  STATUS\n", "", {"state": "unreachable"}),
        (0, '{"Names": "x"}', "", {"state": "unreachable"}),
        (1, "", "Cannot connect to the Docker daemon", {"state": "unreachable"}),
        (None, "", "no answer within 15 s: timed out", {"state": "unreachable", "note": "no answer in time"}),
    ],
)
def test_dockers_list_gives_the_rank(rc: int | None, stdout: str, stderr: str, rank: dict[str, Any]) -> None:
    """The running container counts, docker's words are kept, and what cannot be read is not called dead."""
    found = ranks.read("n1", 1, rc=rc, stdout=stdout, stderr=stderr)
    assert {name: getattr(found, name) for name in rank} == rank


def _inspect(
    *, running: bool = True, code: int = 0, restarts: int = 0, policy: str = "no", killed: bool = False
) -> str:
    state = {"Running": running, "ExitCode": code, "OOMKilled": killed}
    return json.dumps(
        [{"State": state, "RestartCount": restarts, "HostConfig": {"RestartPolicy": {"Name": policy}}}]
    )


@pytest.mark.parametrize(
    ("text", "seen", "odd"),
    [
        (_inspect(), Inspected(restarts=0, restart_policy="no"), ""),
        (_inspect(running=False, code=1), Inspected(exit_code=1, restarts=0, restart_policy="no"), ""),
        (_inspect(running=False, code=143), None, "SIGTERM: the node's journal says by whom"),
        (_inspect(running=False, code=137), None, "SIGKILL: the node's journal"),
        (_inspect(running=False, code=137, killed=True), None, "for want of memory"),
        (_inspect(restarts=35, policy="unless-stopped"), None, "35 times by docker; restart policy unless-stopped"),
        (_inspect(restarts=1), None, "once by docker"),
        ("[]", Inspected(), ""),
        ("Error: No such container", Inspected(), ""),
        ('[{"State": {"Running": false, "ExitCode": "?"}, "RestartCount": -1, "HostConfig": {"RestartPolicy": {"Name": 1}}}]',
         Inspected(), ""),
    ],
)  # fmt: skip
def test_what_inspect_adds(text: str, seen: Inspected | None, odd: str) -> None:
    """Exit codes of a killed process, restarts and restart policies are told; what is not there stays unknown."""
    found = ranks.inspected(text)
    if seen:
        assert found == seen
    said = ranks.oddities(Rank(node="n1", rank=1, state="exited"), found)
    assert odd in said
    assert bool(said) == bool(odd)


@given(stdout=st.text(max_size=200), stderr=st.text(max_size=80), rc=st.none() | st.integers(0, 255))
def test_any_docker_gives_a_rank(stdout: str, stderr: str, rc: int | None) -> None:
    """Whatever docker prints, the answer is a rank, and what was not read is never `running`."""
    found = ranks.read("n1", 1, rc=rc, stdout=stdout, stderr=stderr)
    assert found.state in {"absent", "unreachable"}
    assert isinstance(ranks.oddities(found, ranks.inspected(stdout)), str)


class Ticking:
    """A clock that goes on only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic_s(self) -> float:
        """Return the seconds slept."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.now += seconds

    def real_s(self, seconds: float) -> float:
        """Return the same seconds."""
        return seconds

    def today(self) -> str:
        """Return some day."""
        return "2026-11-29T12:00:00Z"


@dataclass
class Nodes:
    """Stands at the SSH doorway: every rank runs, and every GPU draws what hung ones do, unless a test says otherwise."""

    line: Line
    ps: dict[str, str] = field(default_factory=dict)
    power: dict[str, str | None] = field(default_factory=dict)
    asked_for_power: list[str] = field(default_factory=list)

    def __call__(self, line: Line) -> Self:
        """Open as Shell does."""
        assert line is self.line
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""

    def run(self, argv: Sequence[str]) -> tuple[Said, ...]:
        """Run on every node."""
        return self.run_each({node.name: argv for node in self.line.nodes})

    def run_each(self, commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        """Run each node's command."""
        return tuple(self._say(node, tuple(argv)) for node, argv in commands.items())

    def _say(self, node: str, argv: tuple[str, ...]) -> Said:
        if argv == POWER_ARGV:
            self.asked_for_power.append(node)
            cells = self.power.get(node, "18.00 W, 95 %")
            rc = None if cells is None else 0
            return Said(
                node=node, rc=rc, stdout=f"power.draw [W], utilization.gpu [%]\n{cells}\n", stderr="timed out"
            )
        if argv[:2] == ("docker", "inspect"):
            return Said(node=node, rc=0, stdout=_inspect(), stderr="")
        return Said(node=node, rc=0, stdout=self.ps.get(node, json.dumps(ROW)), stderr="")


def _node(name: str, rank: int) -> Node:
    rail = Rail(interface="enp1s0f0np0", address=f"10.10.1.{rank + 1}", hca="rocep1s0f0")
    return Node(name=name, rank=rank, host="127.0.0.1", port=22, user=None, key_file=None, rails=(rail,))


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """Two nodes of a line that serves."""
    line = Line(
        name="A",
        nodes=(_node("a0", 0), _node("a1", 1)),
        recipe=None,
        api_host="127.0.0.1",
        api_port=1,
        master_port=29501,
        floors={},
        known_hosts=None,
        source="test",
    )
    made = Nodes(line=line)
    monkeypatch.setattr(status, "Shell", made)
    monkeypatch.setattr(api, "look", lambda *_: SERVES)
    return made


def _page(*, running: int = 4, made: float = 500, kv: float = 0.25) -> str:
    return (
        f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\nvllm:prompt_tokens_total 100\n"
        f"vllm:generation_tokens_total {made}\nvllm:kv_cache_usage_perc {kv}\n"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What /metrics shows in the course of time (in the line's seconds), and what power; and what that amounts to, and when."""

    pages: Callable[[float], str | None]
    state: State
    took_s: float
    says: str
    power: Mapping[str, str | None] = field(default_factory=dict)


COURSES = (
    Course(pages=lambda _: None, state="serving", took_s=0, says="a frozen engine would not show"),
    Course(pages=lambda _: _page(running=0), state="serving", took_s=0, says="no request runs"),
    Course(pages=lambda now: _page(made=500 + 16 * now), state="serving", took_s=1, says="tokens flow"),
    Course(
        pages=lambda now: _page(kv=0.25 + now // 30 / 100), state="serving", took_s=36, says="tokens flow"
    ),
    Course(
        pages=lambda now: _page(running=4 * (now < 50)), state="serving", took_s=56, says="no request runs"
    ),
    Course(
        pages=lambda _: _page(),
        state="frozen",
        took_s=66,
        says="4 requests under way and no token in the 66 s",
    ),
    Course(
        pages=lambda _: _page(),
        power={"a1": "[N/A], 95 %"},
        state="unclear",
        took_s=66,
        says="power unknown on a1",
    ),
    Course(
        pages=lambda _: _page(), power={"a1": None}, state="unclear", took_s=66, says="power unknown on a1"
    ),
    Course(
        pages=lambda _: _page(),
        power={"a1": "44.00 W, 99 %"},
        state="serving",
        took_s=66,
        says="a1 draws 44 W",
    ),
    Course(pages=lambda now: _page() if now < 20 else None, state="unclear", took_s=26, says="no more"),
)


@pytest.mark.parametrize("course", COURSES, ids=lambda one: f"{one.state} after {one.took_s} s: {one.says}")
def test_a_frozen_engine_is_told_from_a_long_prefill(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, course: Course
) -> None:
    """An idle or working engine is told at once; only one of which nothing moves for a minute is frozen."""
    clock = Ticking()
    nodes.power.update(course.power)
    monkeypatch.setattr(api, "metrics_text", lambda *_: course.pages(clock.now))
    seen = observe(nodes.line, clock)
    assert (seen.state, course.says in seen.note) == (course.state, True), seen.note
    assert clock.now == course.took_s
    assert bool(seen.hint) == (course.state != "serving")


def test_a_node_that_does_not_answer_for_its_gpu_is_asked_once(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvidia-smi can block on a hung node: it is not started there again and again; the others go on being asked."""
    nodes.power["a1"] = None
    monkeypatch.setattr(api, "metrics_text", lambda *_: _page())
    observe(nodes.line, Ticking())
    assert nodes.asked_for_power.count("a1") == 1
    assert nodes.asked_for_power.count("a0") > 1


def test_while_it_looks_on_it_says_so(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The long look tells what it waits for; a line that works is told without a word."""
    told: list[str] = []
    monkeypatch.setattr(api, "metrics_text", lambda *_: _page())
    observe(nodes.line, Ticking(), told.append)
    assert told
    assert all("looking on until 60 s" in text for text in told)
    quiet: list[str] = []
    monkeypatch.setattr(api, "metrics_text", lambda *_: _page(running=0))
    observe(nodes.line, Ticking(), quiet.append)
    assert quiet == []


def test_a_line_with_a_dead_rank_is_not_watched(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is broken is said at once, with exit code and time; its counters would prove nothing."""
    nodes.ps["a1"] = json.dumps(EXITED)
    pages: Iterator[str] = iter(())
    monkeypatch.setattr(api, "metrics_text", lambda *_: next(pages))
    seen = observe(nodes.line, Ticking())
    assert seen.state == "broken"
    assert "a1 (Exited (137) 2 hours ago); the API still answers" in seen.note
    assert [one.exit_code for one in seen.ranks] == [None, 137]
    assert [one.restart_policy for one in seen.ranks] == ["no", "no"]
