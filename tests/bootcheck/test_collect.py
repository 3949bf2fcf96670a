"""From the answers of a playbook to a bundle, and what the nodes are asked."""

from bootcheck import collect
from bootcheck.facts import Memory, Unread
from bootcheck.probes import PROBES
from sparkctl.ansible import Answer, Status
from sparkctl.line import Line


def _answer(host: str, status: Status = "ok", message: str = "", **result: object) -> Answer:
    return Answer(
        host=host,
        task="t",
        status=status,
        changed=False,
        message=message,
        seconds=0.1,
        result={"changed": False, **result},
    )


def test_every_answer_ends_up_with_its_node(line: Line) -> None:
    """Records, an unreachable node, a failed task and a node that was never asked are told apart."""
    record = {
        "probe": "memory",
        "argv": ["cat", "/proc/meminfo"],
        "rc": 0,
        "stdout": "MemTotal: 100 kB\nMemFree: 50 kB\nMemAvailable: 60 kB\nCached: 1 kB\n",
        "stderr": "",
        "seconds": 0.01,
    }
    bundle = collect.bundle(
        line,
        (
            _answer("spark-a0", probes=[record]),
            _answer("spark-a1", "unreachable", "ssh: connect to host 10.0.0.1 port 22: Connection refused"),
            _answer("spark-a2", "failed", "The module interpreter '/x/python3' was not found."),
        ),
    )
    first, second, third, fourth = collect.facts(bundle)
    assert first.memory == Memory(total=102400, free=51200, available=61440, cached=1024)
    assert first.kernel == Unread(probe="kernel", why="not in the bundle")
    assert second.unreachable == "the connection was refused"
    assert "Python interpreter" in third.unreachable
    assert fourth.unreachable == "it was not asked"


def test_a_node_pings_every_rail_of_every_other_node(line: Line) -> None:
    """Each node pings six addresses, none of its own, with packets that fill the MTU exactly."""
    table = collect.tables(line, "image", 9000)["spark-a1"]
    pings = [row["argv"] for row in table if row["probe"] == "jumbo-ping"]
    assert {argv[-1] for argv in pings} == {f"10.10.{rail}.{host}" for rail in (1, 2) for host in (1, 3, 4)}  # type: ignore[index]
    assert all(argv[argv.index("-s") + 1] == "8972" for argv in pings)  # type: ignore[index,attr-defined]


def test_the_burning_probe_waits_for_a_quiet_gpu(line: Line) -> None:
    """The one probe that loads the GPU runs alone, last, and only when no process is listed."""
    table = collect.tables(line, "image", 9000)["spark-a0"]
    assert table[-1]["probe"] == "gemv"
    assert table[-1]["group"] == "alone"
    assert table[-1]["only_if_quiet"] == {"probe": "gpu-processes", "most_lines": 1}


def test_every_command_has_a_time_limit(line: Line) -> None:
    """nvidia-smi may block for minutes (1,105 s in r0b0tlab/dsv41-flash-tp4-sglang-sm121, reported), so nothing runs without a limit."""
    assert all(
        0 < float(str(row["limit_s"])) <= 120 for row in collect.tables(line, "image", 9000)["spark-a0"]
    )
    assert {name for name, _, _ in collect.probe_commands("image", 9000)} == {probe.name for probe in PROBES}
