"""The collective: what its container gets, where the ranks meet, and nccl-tests that somebody put into a bundle."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bootcheck import gates
from bootcheck.facts import Context, Record, Unread
from bootcheck.gates.gate import Scene
from bootcheck.probes.collective import environment, port
from bootcheck.probes.probe import Target
from bootcheck.probes.table import find, parse
from sparkctl.line import Line

MakeScene = Callable[..., Scene]
CASES = Path(__file__).parent / "cases" / "nccl-tests"


def _argvs(known: Context, line: Line) -> tuple[tuple[str, ...], ...]:
    probe = find("collective")
    assert probe is not None
    return probe.argvs(Target(line=line, node=line.nodes[1], needs=known.needs, floors=known.floors))


def test_the_container_gets_the_network_of_its_rank(known: Context) -> None:
    """RDMA devices, NCCL's settings of that node with its log on, rank, world, the head's fabric address, port and cap."""
    (argv,) = _argvs(known, known.line)
    words = " ".join(argv)
    assert "--network host --device /dev/infiniband --cap-add IPC_LOCK" in words
    assert "-e NCCL_IB_HCA=rocep1s0f0 " in words
    assert "-e NCCL_DEBUG=INFO " in words
    assert "NCCL_DEBUG=WARN" not in words
    assert "MAX_JOBS" not in words
    assert argv[-5:] == ("1", "4", "10.10.1.1", "29502", "1073741824")
    assert argv[argv.index("--pull") + 1] == "never"


def test_a_line_of_one_node_has_no_collective(known: Context, scene: MakeScene) -> None:
    """Nothing is asked and nothing judged where nobody is there to talk to."""
    alone = dataclasses.replace(known.line, nodes=known.line.nodes[:1])
    target = Target(line=alone, node=alone.nodes[0], needs=known.needs, floors=known.floors)
    probe = find("collective")
    assert probe is not None
    assert probe.argvs(target) == ()
    made = scene({})
    single = dataclasses.replace(made, line=alone, facts=made.facts[:1])
    assert not [one for one in gates.judge(single) if one.gate == "collective"]


def test_only_what_decides_the_network_is_taken_over() -> None:
    """NCCL, sockets and preloaded libraries; never a secret, and never where NCCL's log goes."""
    told = {
        "NCCL_IB_HCA": "rocep1s0f0",
        "NCCL_DEBUG_FILE": "/tmp/nccl.log",  # noqa: S108 - a name in a recipe, nothing is written
        "TP_SOCKET_IFNAME": "enp1s0f0np0",
        "LD_PRELOAD": "/opt/nccl/libnccl.so",
        "HF_TOKEN": "not a key",
    }
    assert environment(told) == {
        "NCCL_IB_HCA": "rocep1s0f0",
        "TP_SOCKET_IFNAME": "enp1s0f0np0",
        "LD_PRELOAD": "/opt/nccl/libnccl.so",
        "NCCL_DEBUG": "INFO",
    }


@pytest.mark.parametrize(
    ("master", "api", "wanted"),
    [(29501, 8000, 29502), (29501, 29502, 29503), (65535, 8000, 65534), (65534, 65535, 65533)],
)
def test_ranks_meet_beside_the_ports_of_the_line(line: Line, master: int, api: int, wanted: int) -> None:
    """Neither the line's rendezvous nor its API, and always a port that exists."""
    assert port(dataclasses.replace(line, master_port=master, api_port=api)) == wanted


@pytest.mark.parametrize(
    ("case", "verdict", "measured"),
    [
        ("good", "pass", "all_gather_perf: 23.7 GB/s bus bandwidth at 1073741824 bytes, 2 ranks"),
        ("slow", "fail", "all_gather_perf: 3.0 GB/s bus bandwidth"),
        ("wrong_elements", "fail", "12 wrong elements in all_gather_perf"),
        ("several_rows", "pass", "too small to judge bandwidth"),
        ("truncated", "unknown", "the table of nccl-tests was cut"),
    ],
)
def test_a_bundle_with_nccl_tests_is_judged_by_them(
    scene: MakeScene, case: str, verdict: str, measured: str
) -> None:
    """The worse of our own all-gather and theirs decides, and both are told."""
    told = json.loads((CASES / f"{case}.json").read_text())
    record = Record(
        probe="nccl-tests",
        argv=tuple(told["argv"]),
        rc=told["rc"],
        stdout=told["stdout"],
        stderr="",
        seconds=9.0,
    )
    made = scene({})
    first, *rest = made.facts
    with_tests = dataclasses.replace(first, read={**first.read, "nccl-tests": (parse(record),)})
    judged = gates.judge(dataclasses.replace(made, facts=(with_tests, *rest)))
    found = next(one for one in judged if (one.gate, one.node) == ("collective", "spark-a0"))
    assert found.verdict == verdict
    assert measured in found.measured
    assert found.measured.startswith(
        "23.7 GB/s bus bandwidth, 4 ranks (network IB over rocep1s0f0, roceP2p1s0f0)"
    )


def test_a_collective_that_was_left_out_is_not_judged(scene: MakeScene) -> None:
    """Nobody asked for it, so nothing is said."""
    made = scene({})
    left = (Unread(probe="collective", why="left out", is_left_out=True),)
    facts = tuple(dataclasses.replace(one, read={**one.read, "collective": left}) for one in made.facts)
    judged = gates.judge(dataclasses.replace(made, facts=facts))
    assert not [one for one in judged if one.gate == "collective"]
