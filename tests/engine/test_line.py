"""Real vLLM over two hosts: boot, bench, look, and take down; then what goes wrong with a line, told by the engine itself."""

import json
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from launcher import canary
from ledger.journal import Journal
from sparkctl import inventory
from sparkctl.clock import PacedClock
from sparkctl.line import Line

from .conftest import LESSONS

if TYPE_CHECKING:
    from .conftest import RealLine

pytestmark = pytest.mark.engine

_SEEN_S = 30.0
_STOPPED_S = 10.0


@pytest.fixture(scope="module")
def served(two: "RealLine") -> "RealLine":
    """The line, booted once for the tests that look at it."""
    ended = two("boot", "--json")
    assert ended.code == 0, ended.out + ended.err
    document = ended.document
    assert document["ok"]
    assert [one["name"] for one in document["smokes"]] == ["count", "fact", "json", "prose", "tool", "burst"]
    for values in document["evidence"].values():
        assert values["version"] == ["0.32.0"]
        assert values["kv_gib"] == ["1.0"]
    return two


def test_it_answers_what_it_was_taught(served: "RealLine") -> None:
    """Two real ranks give the answers of the lessons, word for word: a wrong cut of the weights would not."""
    assert served.answers() == LESSONS


def test_status_and_logs_show_every_rank(served: "RealLine") -> None:
    """Every rank runs, and each has its own words."""
    status = served("status", "--json")
    assert status.code == 0, status.out
    asked = served("status", "--canary", "--json").document["note"]
    assert "a token came after" in asked
    assert [one["state"] for one in status.document["ranks"]] == ["running", "running"]
    logs = served("logs", "--json").document["logs"]
    assert all(one["lines"] for one in logs)


def test_a_bench_measures_it(served: "RealLine") -> None:
    """The workload `tiny` is sound on it: usage counts, no early ends, no cached prompt."""
    ended = served("bench", "--prompts", "tiny", "--json")
    assert ended.code == 0, ended.out + ended.err
    figures = {one["name"]: one["value"] for one in ended.document["metrics"]}
    assert set(figures) == {"c1_per_stream_tok_s", "c1_ttft_s", "c4_agg_tok_s", "prefill_500_tok_s"}
    assert all(value > 0 for value in figures.values())
    row = next(
        row for row in reversed(Journal(served.state / "ledger.jsonl").read().rows) if row.kind == "bench"
    )
    body = cast("dict[str, Any]", row.body)
    made = sum(one["completion_tokens"] for one in body["requests"])
    read = sum(one["prompt_tokens"] for one in body["requests"])
    assert body["counters"]["made"] == pytest.approx(made, rel=0.005), "the engine's own counters agree"
    assert body["counters"]["prompt"] == pytest.approx(read, rel=0.005)


def test_a_headless_rank_killed_while_serving_is_seen(served: "RealLine") -> None:
    """Although /health stays green: the container is looked at, not only the API."""
    status = served("status", "--json").document
    worker = status["ranks"][1]
    served.docker(worker["node"], "kill", worker["name"])
    began = time.monotonic()
    seen = served("status", "--json")
    assert time.monotonic() - began < _SEEN_S
    assert (seen.code, seen.document["state"]) == (1, "broken")
    assert worker["node"] in seen.document["note"]
    assert canary.ask(_alone(served), "tiny", PacedClock()).fault, (
        "and what /health does not show a token does"
    )


def _alone(line: "RealLine") -> Line:
    return inventory.read(line.inventory).line("A")


def test_down_leaves_nothing(served: "RealLine") -> None:
    """No container, process, listener or shared memory of it."""
    ended = served("down", "--json")
    assert ended.code == 0, ended.out + ended.err
    assert served.left() == []


def test_a_stale_head_is_refused_before_any_launch(two: "RealLine") -> None:
    """Something that listens on the master port of the head ends the boot, and nothing is started."""
    head = two.rack.hosts[0]
    script = "import socket,time; s=socket.socket(); s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1); s.bind(('0.0.0.0',29501)); s.listen(); time.sleep(600)"
    pid = two.on(head.name, "sh", "-c", f'python3 -c "{script}" >/dev/null 2>&1 & echo $!').strip()
    try:
        ended = two("boot", "--json")
        assert ended.code == 1, ended.out + ended.err
        assert (ended.document["stage"], ended.document["node"]) == ("check", head.name)
        assert "29501" in ended.document["why"]
        assert ended.document["hint"]
        assert not any(two.containers(host.name) for host in two.rack.hosts)
    finally:
        two.on(head.name, "kill", "-9", pid)


def test_a_wrong_argument_reaches_the_user(two: "RealLine") -> None:
    """What vLLM itself says of an argument is what is told, with the node, and every rank is stopped."""
    ended = two("boot", "--json", "--again", "--set", "args.max-model-len=999999")
    assert ended.code == 1, ended.out + ended.err
    assert "max_model_len" in ended.document["why"] or "max-model-len" in ended.document["why"]
    assert ended.document["logs"]
    assert two.left() == []


def test_a_rank_killed_while_it_loads_stops_the_others(two: "RealLine") -> None:
    """Within ten seconds, and its own end is what is told first."""
    head, worker = (host.name for host in two.rack.hosts)
    booting = two.start("boot", "--json", "--again")
    try:
        _await(lambda: _loads(two, worker) and _loads(two, head), 300)
        two.docker(worker, "kill", "sparkctl-a-rank1")
        _await(lambda: not two.processes(head), _STOPPED_S)
        out, err = booting.communicate(timeout=120)
    finally:
        if booting.poll() is None:
            booting.send_signal(signal.SIGINT)
            booting.wait(60)
    assert booting.returncode == 1, out + err
    document = json.loads(out)
    assert document["node"] == worker
    assert "137" in document["why"]
    assert document["logs"]
    assert two.left() == []


def _loads(line: "RealLine", host: str) -> bool:
    """Whether a rank's container runs there and its engine has come so far that it has processes of its own."""
    running = [one for one in line.containers(host) if one["State"] == "running"]
    return bool(running) and len(line.processes(host)) >= 3


def _await(is_so: Callable[[], bool], limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < until, f"not so within {limit_s:g} s"
        time.sleep(0.5)


@pytest.mark.full
def test_four_ranks_answer_alike(four: "RealLine") -> None:
    """The same model cut four ways gives the same answers, and goes down without a rest."""
    ended = four("boot", "--json", limit_s=1200)
    assert ended.code == 0, ended.out + ended.err
    assert four.answers() == LESSONS
    assert four("down").code == 0
    assert four.left() == []
