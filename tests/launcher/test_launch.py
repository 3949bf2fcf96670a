"""Waiting for a line with a scripted shell and API: what ends the wait, what is done first, what is told."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pytest

from launcher import api, launch, waiting
from launcher.api import Seen
from launcher.command import rank_commands
from launcher.guard import Watched
from launcher.launch import Outcome
from launcher.recipe import Ready, Recipe
from launcher.smoke import SMOKES, TOOL, Smoke, Smoked
from launcher.watch import Watch
from launcher.watermark import Trip
from sparkctl import ansible
from sparkctl.ansible import Answer
from sparkctl.clock import PacedClock
from sparkctl.line import Line
from sparkctl.shell import Command, Said

RUNNING = json.dumps([{"State": {"Running": True, "ExitCode": 0}}])


def exited(code: int) -> str:
    """Return what docker inspect says of a rank that ended."""
    return json.dumps([{"State": {"Running": False, "ExitCode": code}}])


@dataclass
class Nodes:
    """Stands for the shell over a line that loads: every rank runs and says nothing unless a test says otherwise."""

    states: dict[str, str | Said] = field(default_factory=dict)
    logs: dict[str, str | Said] = field(default_factory=dict)
    journals: dict[str, str | Said] = field(default_factory=dict)
    ran: list[tuple[str, str]] = field(default_factory=list)
    takes: dict[str, Callable[[str, str], None]] = field(default_factory=dict)
    follows: dict[str, Callable[[], Sequence[str]]] = field(default_factory=dict)
    journal_argvs: dict[str, Sequence[str]] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    resumed: int = 0
    looks: int = 0
    at_look: Callable[[int], None] = lambda _: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def follow(self, commands: Mapping[str, Command], take: Callable[[str, str], None]) -> Self:
        """Keep where lines go to, by docker's verb, and how each node is asked; stands for what is followed too."""
        verb = "wait"
        for node, command in commands.items():
            if callable(command):
                verb, self.follows[node] = command()[1], command
        self.takes[verb] = take
        return self

    def log(self, node: str, text: str, at_s: int = 0) -> None:
        """Let a rank write a line of its log, so many seconds after noon."""
        self.takes["logs"](node, f"2026-11-29T12:{at_s // 60:02}:{at_s % 60:02}.000000000Z {text}")

    def resume(self) -> None:
        """Count."""
        self.resumed += 1

    def run_each(self, commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        """Answer as Shell.run_each does."""
        if any(argv[1] == "inspect" and "--format" not in argv for argv in commands.values()):
            self.looks += 1
            self.at_look(self.looks)
        return tuple(self._one(node, argv) for node, argv in commands.items())

    def _one(self, node: str, argv: Sequence[str]) -> Said:
        verb = argv[1] if argv[0] == "docker" else argv[0]
        self.ran.append((node, verb))
        texts: dict[str, str | Said] = {"logs": self.logs.get(node, "")}
        if verb == "logs" and "--tail" in argv and isinstance(texts["logs"], str):
            texts["logs"] = "\n".join(texts["logs"].splitlines()[-int(argv[argv.index("--tail") + 1]) :])
        texts["inspect"] = self.states.get(node, RUNNING)
        if "{{.Created}}" in argv:
            texts["inspect"] = self.made.get(node, "2026-11-29T12:00:07.5Z\n")
        if verb == "journalctl":
            self.journal_argvs[node] = argv
        texts["journalctl"] = self.journals.get(node, "")
        text = texts.get(verb, "")
        if isinstance(text, Said):
            return replace(text, node=node)
        return Said(node=node, rc=0, stdout=text, stderr="")

    def of(self, verb: str) -> list[str]:
        """Return the nodes on which a command ran."""
        return [node for node, ran in self.ran if ran == verb]


@dataclass
class Api:
    """What the API says at each look; the last goes on."""

    seen: list[Seen] = field(default_factory=lambda: [Seen(health=None)])
    reply: str = ""
    crowded: str = ""
    """What is wrong with replies when many are asked at once."""

    def look(self, *_: object) -> Seen:
        """Answer as api.look does."""
        return self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]

    asked: list[int] = field(default_factory=list)
    """How many were asked at once, each time."""

    def ask(self, _: object, __: object, asked: Sequence[Smoke], ___: object) -> tuple[Smoked, ...]:
        """Answer as api.ask does."""
        self.asked.append(len(asked))
        fault = self.reply or (self.crowded if len(asked) > 1 else "")
        return tuple(Smoked(name=one.name, fault=fault, reply="") for one in asked)


@dataclass
class Watching:
    """Stands for the guard."""

    trip: Trip | None = None
    lowest: dict[str, int] = field(default_factory=lambda: {"spark-a0": 7})
    flushes: dict[str, int] = field(default_factory=dict)
    observed: tuple[Trip, ...] = ()
    moves: dict[str, float] = field(default_factory=dict)
    news: threading.Event = field(default_factory=threading.Event)
    tells: int = 0

    def tell(self) -> None:
        """Count."""
        self.tells += 1

    def tripped(self) -> Trip | None:
        """Return the trip."""
        return self.trip

    def watched(self) -> Watched:
        """Return what was seen."""
        return Watched(lowest=self.lowest, flushes=self.flushes, observed=self.observed)

    def moved(self) -> dict[str, float]:
        """Return when memory moved."""
        return self.moves


TRIP = Trip(
    node="spark-a2",
    why="memory",
    said="MemAvailable fell",
    hint="less",
    samples=("-1.0 s", "+0.0 s"),
    left=(),
)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """A line behind the doorway."""
    made = Nodes()
    monkeypatch.setattr(launch, "Shell", lambda _: made)
    return made


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Api:
    """An API that does not answer yet."""
    made = Api()
    monkeypatch.setattr(api, "look", made.look)
    monkeypatch.setattr(api, "ask", made.ask)
    return made


@pytest.fixture
def told() -> list[str]:
    """What is reported."""
    return []


READING = "the API answers; reading every rank's log, then asking the smokes"

Wait = Callable[..., Outcome]


@pytest.fixture
def wait(line: Line, recipe: Recipe, nodes: Nodes, served: Api, told: list[str]) -> Wait:
    """Return the wait for that line, a thousand times as fast as ours."""
    assert nodes
    assert served
    commands = rank_commands(recipe, line, "boot-1")

    def run(
        ready: Ready | None = None,
        guard: Watching | None = None,
        expects: Mapping[str, str] | None = None,
        sought: tuple[str, ...] = (),
    ) -> Outcome:
        asked = replace(recipe, ready=ready or Ready(poll_s=1.0), expects=expects or {})
        clock = PacedClock(pace=1000.0)
        return launch.wait_ready(
            line, asked, commands, clock, lambda text, _=None: told.append(text), guard=guard, sought=sought
        )  # type: ignore[arg-type]

    return run


def up(recipe: Recipe) -> Seen:
    """Return an API that serves the recipe's model."""
    return Seen(health=200, serves=(recipe.model.served_name,))


def test_ready_is_answered_sensibly(wait: Wait, served: Api, recipe: Recipe, told: list[str]) -> None:
    """A line that serves after some looks is ready with its smokes; what ranks did was told meanwhile."""
    served.seen = [Seen(health=None), Seen(health=200), up(recipe)]
    outcome = wait(guard=Watching())
    assert outcome.fault == ""
    assert [one.name for one in outcome.smokes] == [*(one.name for one in SMOKES), TOOL.name, "burst"]
    assert served.asked == [*[1] * (len(SMOKES) + 1), recipe.max_num_seqs], "as many at once as a batch holds"
    assert outcome.lowest == {"spark-a0": 7}
    assert told == ["all starting", "all starting", READING]


def test_the_stages_are_told(wait: Wait, nodes: Nodes, served: Api, recipe: Recipe, told: list[str]) -> None:
    """Lines of the logs that are followed say what each rank does."""
    served.seen = [Seen(health=None), up(recipe)]
    text = "Loading safetensors checkpoint shards:  41% Completed | 17/41 [02:11<03:05,  7.72s/it]"
    nodes.at_look = lambda _: nodes.log("spark-a0", text)
    wait()
    assert told[0] == "spark-a0 loading (41%), spark-a1 starting, spark-a2 starting, spark-a3 starting"


def test_a_smoke_that_fails_is_no_ready_line(wait: Wait, served: Api, recipe: Recipe) -> None:
    """A line that answers nonsense is told with the smoke."""
    served.seen, served.reply = [up(recipe)], "repeats one token"
    outcome = wait()
    assert outcome.fault.startswith(f"smoke {SMOKES[0].name}: repeats one token")
    assert len(outcome.smokes) == len(SMOKES) + 1
    assert max(served.asked) == 1, "nothing more is asked of a line that talks nonsense"


def test_a_line_that_is_right_alone_and_wrong_in_a_crowd_is_not_ready(
    wait: Wait, served: Api, recipe: Recipe
) -> None:
    """Kernels and graphs of full batches show only when as many ask at once."""
    served.seen, served.crowded = [up(recipe)], "wanted 1 to 20 in order"
    outcome = wait()
    assert outcome.fault.startswith("8 of 8 requests at once were answered wrongly")
    assert "max-num-seqs" in outcome.hint


def test_a_rank_that_ends_stops_the_others_and_is_told_first(wait: Wait, nodes: Nodes) -> None:
    """Docker's own word comes at once; the ones that outlived it are stopped before anything is read."""
    nodes.logs = {"spark-a2": "starting\nValueError: no\n", "spark-a0": "EngineDeadError: x\n"}

    def end(look: int) -> None:
        if look == 1:
            nodes.takes["wait"]("spark-a2", "1\n")
            nodes.takes["wait"]("spark-a0", "1\n")

    nodes.at_look = end
    outcome = wait(Ready(poll_s=100_000.0))
    assert outcome.fault == "sparkctl-a-rank2 ended with exit code 1: ValueError: no"
    assert (outcome.node, outcome.log) == ("spark-a2", ("starting", "ValueError: no"))
    assert not outcome.unclear
    assert nodes.of("stop") == ["spark-a1", "spark-a3"]
    ran = [verb for _, verb in nodes.ran]
    assert ran.index("stop") < ran.index("logs")
    assert nodes.looks == 1, "the end itself woke the wait"


@pytest.mark.parametrize("code", [1, 0])
def test_an_end_that_only_the_look_shows_counts_too(wait: Wait, nodes: Nodes, code: int) -> None:
    """Where `docker wait` did not come through, docker inspect tells; an end with 0 is one as well."""
    nodes.states["spark-a1"] = exited(code)
    nodes.logs["spark-a1"] = "ERROR: it broke"
    outcome = wait()
    assert outcome.fault == f"sparkctl-a-rank1 ended with exit code {code}: ERROR: it broke"
    assert nodes.of("stop") == ["spark-a0", "spark-a2", "spark-a3"]


def test_what_docker_wait_complains_of_is_no_end(
    wait: Wait, nodes: Nodes, served: Api, recipe: Recipe
) -> None:
    """Its error is looked into by the next look and taken for no exit code."""
    served.seen = [Seen(health=None), up(recipe)]
    nodes.at_look = lambda _: nodes.takes["wait"](
        "spark-a1", "Error response from daemon: No such container: x"
    )
    assert wait().fault == ""


def test_a_container_that_is_gone_is_told(wait: Wait, nodes: Nodes) -> None:
    """Somebody removed it; the others are stopped too."""
    nodes.states["spark-a3"] = Said(node="", rc=1, stdout="[]", stderr="Error: No such container: x")
    outcome = wait()
    assert (outcome.node, outcome.fault) == ("spark-a3", "sparkctl-a-rank3 is gone: its log is empty")


def test_whoever_killed_a_rank_is_looked_for_on_its_node(wait: Wait, nodes: Nodes) -> None:
    """137 and 143 are looked up in the journal of that very node; every journal is read, a lost card may be another's."""
    nodes.states["spark-a1"] = exited(143)
    nodes.journals["spark-a1"] = (
        'Sep 19 03:11:47 n earlyoom[912]: sending SIGTERM to process 41873 uid 0 "VLLM::EngineCor": badness 1010, VmRSS 3412 MiB'
    )
    outcome = wait()
    assert nodes.of("journalctl") == [f"spark-a{rank}" for rank in range(4)]
    assert "exit code 143 (SIGTERM): earlyoom, not the kernel, sent SIGTERM to process 41873" in outcome.fault


def test_a_journal_is_read_since_the_rank_was_made(wait: Wait, nodes: Nodes) -> None:
    """By each node's own clock; where nobody knows since when, it is not read, and nobody is cleared by it."""
    nodes.states["spark-a1"] = exited(137)
    nodes.made = {"spark-a1": "2026-11-29T12:00:09.25Z\n", "spark-a3": ""}
    outcome = wait()
    since = {node: argv[list(argv).index("--since") + 1] for node, argv in nodes.journal_argvs.items()}
    assert since == {
        "spark-a0": "2026-11-29 12:00:07 UTC",
        "spark-a1": "2026-11-29 12:00:09 UTC",
        "spark-a2": "2026-11-29 12:00:07 UTC",
    }
    assert "the journal since its start names nobody" in outcome.fault


def test_a_journal_that_hides_messages_clears_nobody(wait: Wait, nodes: Nodes) -> None:
    """A login outside systemd-journal sees its own messages only, and journalctl ends with 0."""
    hint = "Hint: You are currently not seeing messages from other users and the system.\n"
    nodes.states["spark-a1"] = exited(137)
    nodes.journals["spark-a1"] = Said(node="", rc=0, stdout="-- No entries --\n", stderr=hint)
    outcome = wait()
    assert "the node's journal could not be read" in outcome.fault
    assert "systemd-journal" in outcome.hint


def test_a_log_that_is_followed_again_goes_on_where_it_was_left(
    line: Line, recipe: Recipe, nodes: Nodes
) -> None:
    """What was read before is no news, however often the link is lost; what came meanwhile is."""
    name, clock = "spark-a1", PacedClock()
    with Watch(nodes, rank_commands(recipe, line, "boot-1"), clock, threading.Event()) as watch:  # type: ignore[arg-type]
        assert "--since" not in nodes.follows[name]()
        nodes.log(name, "Starting to load model /m", 10)
        nodes.log(name, "n:1:2 [0] NCCL INFO Using network IB", 20)
        before = watch.ranks()[1]
        assert nodes.follows[name]()[-3:] == ("--since", "2026-11-29T12:00:20.000000000Z", "sparkctl-a-rank1")
        nodes.log(name, "n:1:2 [0] NCCL INFO Using network IB", 20)
        nodes.takes["logs"](name, "Graph capturing finished, a bar's last state")
        assert watch.ranks()[1] == before
        nodes.log(name, "Model loading took 81 GiB", 21)
        nodes.takes["logs"](name, "a bar's next state")
        after = watch.ranks()[1]
    assert (before.stage, after.stage, after.last) == ("loading", "profiling", "a bar's next state")
    assert after.spoke_s > before.spoke_s


def test_a_lost_network_card_is_what_is_told(wait: Wait, nodes: Nodes) -> None:
    """The kernel log of any node comes first: whatever the engine says of a dead link follows from the lost card."""
    nodes.states["spark-a1"] = exited(1)
    nodes.logs["spark-a1"] = "RuntimeError: NCCL error: unhandled system error"
    nodes.journals["spark-a3"] = (
        "Nov 29 12:00:00 n kernel: mlx5_core 0000:01:00.0: mlx5_pci_err_detected Device state = 1 health sensors: 1 "
        "pci_status: 1. Enter, pci channel state = 2"
    )
    outcome = wait()
    assert outcome.node == "spark-a3"
    assert "sparkctl-a-rank1 ended with exit code 1" in outcome.fault
    assert "0000:01:00.0" in outcome.fault


def test_a_line_on_sockets_is_not_ready(wait: Wait, nodes: Nodes, served: Api, recipe: Recipe) -> None:
    """It answers, several times slower: its own log says so, and that is a fault."""
    served.seen = [up(recipe)]
    nodes.logs["spark-a2"] = "node-a:301:344 [0] NCCL INFO Using network Socket"
    outcome = wait()
    assert "ocket" in outcome.fault
    assert outcome.hint


@pytest.mark.parametrize(
    ("text", "is_fault"),
    [
        ("node-a:301:344 [0] NCCL INFO Using network Socket", True),
        ("non-default args: {'model_tag': 'm', 'api_key': ['EXAMPLE'], 'model': 'm'}", False),
    ],
)
def test_what_was_said_long_ago_counts_once_the_line_answers(  # noqa: PLR0913, PLR0917 - fixtures and cases
    wait: Wait,
    nodes: Nodes,
    served: Api,
    recipe: Recipe,
    text: str,
    is_fault: bool,  # noqa: FBT001
) -> None:
    """The whole log is read then; NCCL's network and a key that shows stand at its beginning."""
    served.seen = [up(recipe)]
    nodes.logs = dict.fromkeys(("spark-a0", "spark-a2"), "\n".join((text, *["(EngineCore) INFO"] * 1000)))
    outcome = wait()
    assert bool(outcome.fault) == is_fault
    assert bool(outcome.remarks) != is_fault


def test_a_rank_of_another_version_is_no_ready_line(
    wait: Wait, nodes: Nodes, served: Api, recipe: Recipe
) -> None:
    """A recipe is written for one version of the engine: the rank that runs another is named, before anything is asked."""
    served.seen = [up(recipe)]
    for name in ("spark-a0", "spark-a1"):
        nodes.logs[name] = (
            f"(Worker pid=1) INFO 09-10 [serve.py:1] Launching vLLM (v{recipe.engine.version}) headless"
        )
    nodes.logs["spark-a2"] = "(Worker pid=1) INFO 09-10 [serve.py:1] Launching vLLM (v0.31.2+cu130) headless"
    outcome = wait()
    assert outcome.node == "spark-a2"
    assert (
        outcome.fault
        == f"its log says version 0.31.2+cu130, wanted {recipe.engine.version}, which the recipe is written for"
    )
    assert "engine.version" in outcome.hint
    assert outcome.smokes == ()


def test_what_a_recipe_expects_of_every_rank_is_asked_of_every_rank(
    wait: Wait, nodes: Nodes, served: Api, recipe: Recipe
) -> None:
    """Rows of Engram that cannot be read are served as zeros: one rank without its proof is no ready line, and all are."""
    served.seen = [up(recipe)]
    proof = (
        "(Worker_TP0 pid=9) INFO 09-10 02:17:03 [engram.py:88] table of layer 1 read from node-local files"
    )
    expects = {"engram": "read from node-local"}
    nodes.logs = {f"spark-a{rank}": proof for rank in range(4)}
    ready = wait(expects=expects)
    assert ready.fault == ""
    assert ready.evidence["spark-a3"]["engram"] == ("table of layer 1 read from node-local files",)
    nodes.logs["spark-a3"] = "Application startup complete."
    served.seen = [up(recipe)]
    lacks = wait(expects=expects)
    assert lacks.node == "spark-a3"
    assert lacks.fault.startswith("its log says nothing of engram")
    assert "expects.engram" in lacks.hint


def test_a_lever_is_armed_by_any_rank(wait: Wait, nodes: Nodes, served: Api, recipe: Recipe) -> None:
    """What is looked for may stand in a worker's log only."""
    served.seen = [up(recipe)]
    nodes.logs["spark-a2"] = "n:1:2 [0] NCCL INFO 8 coll channels, 8 p2p channels"
    outcome = wait(sought=("8 coll channels", "16 coll channels"))
    assert outcome.found == ("8 coll channels",)


def test_a_log_that_cannot_be_read_leaves_the_line_unclear(
    wait: Wait, nodes: Nodes, served: Api, recipe: Recipe
) -> None:
    """Some looks are allowed to fail; then nothing is claimed of a line whose logs nobody saw."""
    served.seen = [up(recipe)] * waiting.MOST_SILENCES
    nodes.logs["spark-a1"] = Said(node="", rc=None, stdout="", stderr="no answer within 15 s: timed out")
    outcome = wait()
    assert outcome.unclear
    assert outcome.node == "spark-a1"
    assert outcome.fault == "its rank's log cannot be read: no answer in time"


def test_a_line_with_an_ssh_that_had_no_answer_is_ready(
    wait: Wait, nodes: Nodes, served: Api, recipe: Recipe
) -> None:
    """Somebody's login in a log says nothing of a line that serves."""
    served.seen = [up(recipe)]
    nodes.logs["spark-a2"] = "ssh: connect to host 10.10.20.2 port 22: Connection timed out"
    assert wait().fault == ""


def test_what_the_guard_saw_is_given_back(wait: Wait, served: Api, recipe: Recipe) -> None:
    """Flushes and what an observing guard would have done stand beside the lowest figures."""
    served.seen = [up(recipe)]
    outcome = wait(guard=Watching(observed=(TRIP,), flushes={"spark-a1": 3}))
    assert outcome.fault == ""
    assert (outcome.lowest, outcome.flushes) == ({"spark-a0": 7}, {"spark-a1": 3})
    assert outcome.observed == ("spark-a2: MemAvailable fell",)


def test_what_a_log_warns_of_is_kept_beside_a_line_that_serves(
    wait: Wait, nodes: Nodes, served: Api, recipe: Recipe
) -> None:
    """A key in the log does not stop a boot; it is told."""
    served.seen = [up(recipe)]
    nodes.logs["spark-a0"] = (
        "(APIServer pid=1) INFO 08-19 18:30:11 [api_utils.py:273] non-default args: {'model_tag': 'm', 'api_key': ['EXAMPLE'], "
        "'model': 'm'}"
    )
    outcome = wait()
    assert outcome.fault == ""
    assert len(outcome.remarks) == 1
    assert "EXAMPLE" not in outcome.remarks[0]


def test_a_node_may_be_silent_for_some_looks(
    wait: Wait, nodes: Nodes, served: Api, recipe: Recipe, told: list[str]
) -> None:
    """A log-in can take longer while weights load; what was followed is followed again afterwards."""
    served.seen = [up(recipe)]
    late = Said(node="", rc=None, stdout="", stderr="no answer within 15 s: timed out")

    def look(number: int) -> None:
        nodes.states["spark-a2"] = late if number <= waiting.MOST_SILENCES - 1 else RUNNING

    nodes.at_look = look
    assert wait().fault == ""
    assert told[: waiting.MOST_SILENCES - 1] == ["no answer while its rank loaded: no answer in time"] * 2
    assert nodes.resumed >= 1


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (
            Said(node="", rc=None, stdout="", stderr="timed out"),
            "no answer while its rank loaded: no answer in time",
        ),
        (
            Said(node="", rc=0, stdout="<html>", stderr=""),
            "docker inspect does not say whether its rank runs: '<html>'",
        ),
        (
            Said(node="", rc=1, stdout="", stderr="Cannot connect to the Docker daemon"),
            "Cannot connect to the Docker",
        ),
        (
            Said(node="", rc=1, stdout="", stderr="dial unix /var/run/docker.sock: i/o timed out"),
            "no answer while its rank loaded: dial unix /var/run/docker.sock: i/o timed out",
        ),
    ],
)
def test_a_node_that_stays_silent_ends_the_wait_unclear(
    wait: Wait, nodes: Nodes, said: Said, fault: str
) -> None:
    """Nothing can be said of what was booted, and no rank is declared dead for want of an answer."""
    nodes.states["spark-a2"] = said
    outcome = wait()
    assert (outcome.node, outcome.unclear) == ("spark-a2", True)
    assert fault in outcome.fault
    assert nodes.looks == waiting.MOST_SILENCES
    assert nodes.of("stop") == []


def test_a_silent_rank_is_named_with_its_stage(wait: Wait, nodes: Nodes) -> None:
    """There is no limit on the whole; a stage that stands still for longer than its own ends the wait."""
    nodes.at_look = lambda look: (
        nodes.log(f"spark-a{look % 4}", "Starting to load model /m") if look < 5 else None
    )
    nodes.logs["spark-a1"] = "its log\n"
    guard = Watching(moves=dict.fromkeys(("spark-a0", "spark-a2", "spark-a3"), 1e12) | {"spark-a1": 0.0})
    outcome = wait(Ready(poll_s=1.0, silence_s={"loading": 40.0}), guard)
    assert outcome.node == "spark-a1"
    assert "sparkctl-a-rank1 has said nothing new for" in outcome.fault
    assert "while loading, wanted a line or a move of memory within 40 s" in outcome.fault
    assert "http://" in outcome.fault
    assert outcome.fault.endswith("does not answer")
    assert outcome.log == ("its log",)
    assert not outcome.unclear


def test_a_line_that_is_up_under_another_name_is_told(wait: Wait, nodes: Nodes, served: Api) -> None:
    """All ranks are up and the API lists something else: no wait helps."""
    served.seen = [Seen(health=200, serves=("other",))]
    nodes.at_look = lambda _: [nodes.log(f"spark-a{rank}", "Graph capturing finished") for rank in range(4)]
    outcome = wait(Ready(poll_s=1.0, silence_s={"serving": 20.0}))
    assert "wanted an answer of the API within 20 s" in outcome.fault
    assert outcome.fault.endswith("lists other")


def test_an_api_that_wants_a_key_is_not_waited_for(wait: Wait, served: Api) -> None:
    """401 is an answer; whoever waits for 200 waits for ever (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark PR#64)."""
    served.seen = [Seen(health=401, is_locked=True)]
    outcome = wait()
    assert "wants a key" in outcome.fault
    assert outcome.unclear


@pytest.mark.parametrize(("why", "unclear"), [("memory", False), ("silence", True)])
def test_a_trip_of_the_guard_comes_before_what_follows_from_it(
    wait: Wait,
    nodes: Nodes,
    why: str,
    unclear: bool,  # noqa: FBT001
) -> None:
    """The ranks that the guard killed are not told as dead; samples and lowest figures are given back."""
    guard = Watching()

    def trip(_: int) -> None:
        guard.trip = replace(TRIP, why=why, left=("spark-a1",))  # type: ignore[arg-type]
        nodes.states = {f"spark-a{rank}": exited(137) for rank in range(4)}

    nodes.at_look = trip
    outcome = wait(guard=guard)
    assert outcome.fault == "the guard stopped every rank: MemAvailable fell"
    assert (outcome.node, outcome.unclear, outcome.log) == ("spark-a2", unclear, TRIP.samples)
    assert outcome.hint == "less; stopping was not confirmed on spark-a1"
    assert outcome.trip is not None
    assert outcome.lowest == {"spark-a0": 7}
    assert guard.tells >= 1


def test_a_trip_while_the_smokes_are_asked_is_told(
    wait: Wait, served: Api, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply that does not come because the ranks were stopped is no nonsense."""
    served.seen = [up(recipe)]
    guard = Watching()

    def ask(*_: object) -> tuple[Smoked, ...]:
        guard.trip = TRIP
        return (Smoked(name="x", fault="no usable reply", reply=""),)

    monkeypatch.setattr(api, "ask", ask)
    assert wait(guard=guard).trip is TRIP


def test_a_rank_that_ends_while_the_smokes_are_asked_is_told(
    wait: Wait, nodes: Nodes, served: Api, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end explains the reply that did not come."""
    served.seen = [up(recipe)]
    nodes.logs["spark-a3"] = "ERROR: it broke"

    def ask(*_: object) -> tuple[Smoked, ...]:
        nodes.takes["wait"]("spark-a3", "1")
        return (Smoked(name="x", fault="no usable reply", reply=""),)

    monkeypatch.setattr(api, "ask", ask)
    assert wait().fault == "sparkctl-a-rank3 ended with exit code 1: ERROR: it broke"


def test_a_launch_that_the_guard_ended_tells_the_trip(
    line: Line, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank that did not stay up was killed by the guard; warnings are told while ranks start."""
    failed = Answer(
        host="spark-a1", task="t", status="failed", changed=False, message="exited", seconds=0.0, result={}
    )

    def run(*_: object, report: Callable[[Answer], None]) -> tuple[Answer, ...]:
        report(failed)
        return (failed,)

    monkeypatch.setattr(ansible, "run", run)
    commands = rank_commands(recipe, line, "boot-1")
    for guard, fault in (
        (Watching(trip=TRIP), "the guard stopped every rank: MemAvailable fell"),
        (Watching(), "exited"),
    ):
        started = launch.start(line, commands, PacedClock(), lambda *_: None, guard)  # type: ignore[arg-type]
        assert started.fault == fault
        assert guard.tells >= 1


def test_ranks_over_ray_know_each_other_by_a_secret_of_their_launch(
    monkeypatch: pytest.MonkeyPatch, line: Line, recipe: Recipe
) -> None:
    """Whoever reaches Ray's port may run what he likes unless Ray asks for a token: one, drawn anew, on every rank, and in no command."""
    told: list[dict[str, dict[str, str]]] = []

    def run(_name: str, _line: Line, variables: dict[str, Any], **_: object) -> tuple[Answer, ...]:
        told.append(variables["rank_secret_variables"])
        return ()

    monkeypatch.setattr(ansible, "run", run)
    over_ray = replace(recipe, parallel=replace(recipe.parallel, backend="ray"))
    for _ in range(2):
        launch.start(line, rank_commands(over_ray, line, "boot-1"), PacedClock(), lambda *_: None)
    launch.start(line, rank_commands(recipe, line, "boot-1"), PacedClock(), lambda *_: None)
    first, second, none = told
    assert first.keys() == {node.name for node in line.nodes}
    drawn = {text for variables in (*first.values(), *second.values()) for text in variables.values()}
    assert len(drawn) == 2
    assert all(len(text) == 64 for text in drawn)
    assert none == {}


def test_what_a_node_says_when_a_rank_does_not_start_is_told_without_secrets(
    monkeypatch: pytest.MonkeyPatch, line: Line
) -> None:
    """Docker's message and the container's last words go to a terminal and into the ledger."""
    said = "docker run ended with rc 125: invalid: HF_TOKEN=Zq7message"
    log = "api_key: Zq7log\n-----BEGIN PRIVATE KEY-----\nZq7block\n-----END PRIVATE KEY-----\nRuntimeError: no GPU"
    answer = Answer(
        host="spark-a1",
        task="The rank runs",
        status="failed",
        changed=False,
        message=said,
        seconds=0.1,
        result={"msg": said, "stderr": log},
    )
    monkeypatch.setattr(ansible, "run", lambda *_, **__: (answer,))
    ended = launch.start(line, (), PacedClock(), lambda *_: None)
    assert ended.fault == "docker run ended with rc 125: invalid: HF_TOKEN=<withheld>"
    assert ended.log == ("api_key: <withheld>", "<withheld>", "RuntimeError: no GPU")
