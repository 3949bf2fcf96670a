"""From the answers of a playbook to a bundle, and what the nodes are asked."""

from bootcheck import collect
from bootcheck.facts import Context, Unread
from bootcheck.floors import Floors
from bootcheck.probes import PROBES, loading, requested
from bootcheck.probes.memory import Memory
from bootcheck.probes.software import Kernel
from sparkctl.ansible import Answer, Status


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


def test_every_answer_ends_up_with_its_node(known: Context) -> None:
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
        known,
        (
            _answer("spark-a0", probes=[record]),
            _answer("spark-a1", "unreachable", "ssh: connect to host 10.0.0.1 port 22: Connection refused"),
            _answer("spark-a2", "failed", "The module interpreter '/x/python3' was not found."),
        ),
    )
    first, second, third, fourth = collect.facts(bundle)
    assert first.one(Memory) == Memory(total=102400, free=51200, available=61440, cached=1024)
    assert first.one(Kernel) == Unread(probe="kernel", why="not in the bundle")
    assert second.unreachable == "the connection was refused"
    assert "Python interpreter" in third.unreachable
    assert fourth.unreachable == "it was not asked"


def test_a_node_pings_every_rail_of_every_other_node(known: Context) -> None:
    """Each node pings six addresses, none of its own, with packets that fill each of two MTUs exactly."""
    table = collect.tables(known)["spark-a1"]
    pings = [row["argv"] for row in table if row["probe"] == "jumbo-ping"]
    assert {argv[-1] for argv in pings} == {f"10.10.{rail}.{host}" for rail in (1, 2) for host in (1, 3, 4)}  # type: ignore[index]
    assert [argv[argv.index("-s") + 1] for argv in pings] == ["4172", "8972"] * 6  # type: ignore[index,attr-defined]


def test_the_burning_probe_waits_for_a_quiet_gpu(known: Context) -> None:
    """What loads a node runs alone, and only when no process is listed on the GPU."""
    alone = [row for row in collect.tables(known)["spark-a0"] if row["group"] == "alone"]
    assert {row["probe"] for row in alone} == loading()
    assert all(row["only_if_quiet"] == {"probe": "gpu-processes", "most_lines": 1} for row in alone)


def test_every_command_has_a_time_limit(known: Context) -> None:
    """nvidia-smi may block for minutes (1,105 s in r0b0tlab/dsv41-flash-tp4-sglang-sm121, reported), so nothing runs without a limit."""
    limits = {str(row["probe"]): float(str(row["limit_s"])) for row in collect.tables(known)["spark-a0"]}
    assert all(0 < limit <= 120 for name, limit in limits.items() if name not in requested())
    assert all(limits[name] > 0 for name in requested())
    # nccl-tests is judged when a bundle holds it and has no command.
    told = {name for name, _, _ in collect.examples(Floors())} | {"nccl-tests"}
    assert told == {probe.name for probe in PROBES}
