"""A node has one hidden state: whatever command shows a part of it, they all say the same, and go on to when it changes."""

import json
import re
from pathlib import Path

import pytest

from rehearsal import containers
from rehearsal.faces import gpu
from rehearsal.scenario import Traits
from rehearsal.traits import Burn, OldContainer, Resident

from .conftest import kib
from .within import IMAGE, Within, everywhere, within

JUMBO = ("ping", "-M", "do", "-s", "8972", "-c", "2")
RANK = ("docker", "run", "-d", "--name", "sparkctl-a-rank0", IMAGE, "serve", "m")
SETTLE = "sync; echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory"


def links(nodes: Within, node: str = "spark-a0") -> dict[str, int]:
    """Return the MTU of each interface as ip tells it."""
    return {one["ifname"]: one["mtu"] for one in json.loads(nodes("ip", "-j", "addr", node=node).out)}


def free_kib(nodes: Within, key: str = "MemAvailable") -> int:
    """Return one figure of the first node's memory."""
    return kib(nodes("cat", "/proc/meminfo").out, key)


def in_blocks_kib(nodes: Within, order: int = 0) -> int:
    """Return what lies in free blocks of at least so many pages (as a power of two)."""
    rows = [row.split()[4:] for row in nodes("cat", "/proc/buddyinfo").out.splitlines()]
    return sum(int(count) * 4 << at for row in rows for at, count in enumerate(row) if at >= order)


def test_an_mtu_shows_in_ip_ping_and_the_adapter_and_follows_a_change(tmp_path: Path) -> None:
    """Raised by root, and by nobody else, it is the new one everywhere, on the node and for its peers."""
    nodes = within(tmp_path, Traits(mtu=(9000, 1500)), "spark-a1")
    file = "/sys/class/net/enP2p1s0f0np0/mtu"

    def seen() -> tuple[int, str, list[str], bool, bool]:
        own, far = nodes(*JUMBO, "127.0.79.1", node="spark-a1"), nodes(*JUMBO, "127.0.79.2")
        active = re.findall(r"active_mtu:\s+(\d+)", nodes("ibv_devinfo", node="spark-a1").out)
        told = nodes("cat", file, node="spark-a1").out.strip()
        return links(nodes, "spark-a1")["enP2p1s0f0np0"], told, active, "mtu=1500" in own.err, far.code == 0

    before = (1500, "1500", ["4096", "1024"], True, False)
    assert seen() == before
    words = ("link", "set", "dev", "enP2p1s0f0np0", "mtu", "9000")
    refused = nodes("ip", *words, node="spark-a1")
    assert (refused.code, refused.err) == (2, "RTNETLINK answers: Operation not permitted\n")
    assert seen() == before
    assert nodes.as_root("ip", *words, node="spark-a1").code == 0
    assert seen() == (9000, "9000", ["4096", "4096"], False, True)
    assert links(nodes)["enP2p1s0f0np0"] == 9000, "the neighbour's own is untouched"


def test_a_black_hole_loses_what_is_large_in_ping_and_in_a_transfer(tmp_path: Path) -> None:
    """Small packets pass, large ones vanish without an error of the own interface, and a transfer stalls."""
    nodes = within(tmp_path, Traits(path_mtu=(9216, 1500)), "spark-a3")
    assert nodes(*JUMBO, "127.0.78.4").code == 0
    lost = nodes(*JUMBO, "127.0.79.4")
    assert (lost.code, lost.err) == (1, "")
    assert nodes("ping", "-M", "do", "-s", "1472", "-c", "1", "127.0.79.4").code == 0
    carried = transfer(nodes, "spark-a2", ("127.0.78.3", "127.0.78.4"), ("127.0.79.3", "127.0.79.4"))
    assert [(row["gbit_s"] is None, row["error"]) for row in carried] == [
        (False, ""),
        (True, "127.0.79.4 confirmed 0 of 262144 bytes"),
    ]


def transfer(nodes: Within, node: str, *pairs: tuple[str, str]) -> list[dict[str, object]]:
    """Run the transfer over these pairs of own and peer's address."""
    rails = [
        {"address": own, "port": 30001, "peer": peer, "peer_port": 30001, "senders": 1} for own, peer in pairs
    ]
    sizes = {
        "streams": 4,
        "bursts": 6,
        "burst_s": 0.15,
        "most_bytes": 2**30,
        "share": 0.05,
        "wait_s": 20,
        "stall_s": 5,
    }
    said = nodes(
        "python3", "-c", "SCRIPT", "sparkctl-transfer", json.dumps({"rails": rails, **sizes}), node=node
    )
    answer = json.loads(said.out)
    assert (said.code, answer["probe"]) == (0, "transfer")
    rows: list[dict[str, object]] = answer["rails"]
    return rows


def test_a_slow_link_slows_what_goes_out_and_what_comes_in(tmp_path: Path) -> None:
    """The node before it and the node itself see the slow rail; a missing address and a missing way are told apart."""
    nodes = within(tmp_path, Traits(link_gbit=(13, 92)), "spark-a2")
    before, own = (
        transfer(
            nodes,
            node,
            (f"127.0.78.{rank}", f"127.0.78.{rank + 1}"),
            (f"127.0.79.{rank}", f"127.0.79.{rank + 1}"),
        )
        for node, rank in (("spark-a1", 2), ("spark-a2", 3))
    )
    for first, second in (before, own):
        assert 12 < float(str(first["gbit_s"])) <= 13
        assert 90 < float(str(second["gbit_s"])) <= 92
        assert first["error"] == second["error"] == ""
    strange, apart = transfer(nodes, "spark-a0", ("127.0.70.9", "127.0.78.2"), ("127.0.78.1", "127.0.79.2"))
    assert strange["error"] == "cannot listen on 127.0.70.9:30001: Cannot assign requested address"
    assert str(apart["error"]).startswith("127.0.79.2:30001 was not there within 20 s")


def test_an_unplugged_rail_is_down_everywhere(tmp_path: Path) -> None:
    """The interface, the adapter, its speed, a ping and a transfer agree."""
    nodes = within(tmp_path, Traits(unplugged=(True, False)))
    first = next(one for one in json.loads(nodes("ip", "-j", "addr").out) if one["ifname"] == "enp1s0f0np0")
    assert (first["operstate"], "NO-CARRIER" in first["flags"], "LOWER_UP" in first["flags"]) == (
        "DOWN",
        True,
        False,
    )
    assert re.findall(r"state:\s+(\w+)", nodes("ibv_devinfo").out) == ["PORT_DOWN", "PORT_ACTIVE"]
    assert nodes("cat", "/sys/class/net/enp1s0f0np0/speed").out == "-1\n"
    assert nodes(*JUMBO, "127.0.78.2").code == nodes(*JUMBO, "127.0.78.1", node="spark-a1").code == 1
    assert "timed out" in str(transfer(nodes, "spark-a0", ("127.0.78.1", "127.0.78.2"))[0]["error"])


def test_a_ring_has_a_subnet_for_each_cable(tmp_path: Path) -> None:
    """p0 reaches the next node and p1 the one before; nothing reaches the node across."""
    nodes = everywhere(tmp_path, Traits(cabling="ring"))
    assert nodes(*JUMBO, "127.0.80.2").code == 0, "spark-a1 over p0"
    assert nodes(*JUMBO, "127.0.83.1").code == 0, "spark-a3 over p1"
    assert nodes(*JUMBO, "127.0.81.2").code == 1, "spark-a2"
    ports = nodes(
        "grep",
        "-h",
        ".",
        "/sys/class/net/enp1s0f0np0/phys_port_name",
        "/sys/class/net/enp1s0f1np1/phys_port_name",
    )
    assert ports.out == "p0\np1\n"


def test_the_gid_of_an_address_lies_where_the_trait_says(tmp_path: Path) -> None:
    """Entries, types and interfaces agree by index; an empty entry has no type; a missing one is missing in all three."""
    nodes = within(tmp_path, Traits(gid_index=(5, -1)))
    folder = "/sys/class/infiniband/{}/ports/1/"
    for hca, index in (("rocep1s0f0", 5), ("roceP2p1s0f0", None)):
        tables = [f"{folder.format(hca)}{kind}" for kind in ("gids", "gid_attrs/types", "gid_attrs/ndevs")]
        said = nodes("grep", "-rHv", "^0000:0000:0000:0000:0000:0000:0000:0000$", *tables)
        read = dict(line.split(":", 1) for line in said.out.splitlines())
        assert said.code == 2
        assert "gid_attrs/types/9: Invalid argument\n" in said.err
        serving = [
            int(path.rpartition("/")[2])
            for path, gid in read.items()
            if ":ffff:7f00:" in gid and read[path.replace("/gids/", "/gid_attrs/types/")] == "RoCE v2"
        ]
        assert serving == ([] if index is None else [index])
        places = {path.rpartition("/")[2] for path in read}
        assert len(read) == 3 * len(places)


def test_a_foreign_process_shows_wherever_it_holds_something(tmp_path: Path) -> None:
    """All of ps, nvidia-smi and the memory agree; memory that is not told is held all the same."""
    healthy = within(tmp_path / "healthy")
    trains = Resident(args="python3 train.py", host_gib=10, gpu_gib=6, told=False, busy=True)
    nodes = within(tmp_path / "held", Traits(residents=(trains,)))
    apps = nodes(
        "nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv,noheader"
    ).out
    pid, name, held = apps.strip().split(", ")
    assert (name, held) == ("python3", "[N/A]")
    assert f" {pid} " in (
        row := next(
            row for row in nodes("ps", "-eo", "pid=,rss=,args=").out.splitlines() if "train.py" in row
        )
    )
    assert row.split()[1] == str(10 * 1024**2)
    for key in ("MemFree", "MemAvailable"):
        assert free_kib(healthy, key) - free_kib(nodes, key) == 16 * 1024**2
    assert (
        nodes("nvidia-smi", "--query-gpu=utilization.gpu,pstate", "--format=csv,noheader").out == "91 %, P0\n"
    )
    cuda = json.loads(nodes.probe("gemv").out)["cuda_free"]
    assert cuda == free_kib(nodes, "MemFree") * 1024


def test_free_blocks_are_what_is_free_and_compaction_joins_them(tmp_path: Path) -> None:
    """Whatever the blocks' sizes, they sum up to MemFree; without the sudo rule they stay in pieces."""
    nodes = within(tmp_path, Traits(fragmented=True, cached_gib=20))
    assert abs(in_blocks_kib(nodes) - free_kib(nodes, "MemFree")) < 8
    assert in_blocks_kib(nodes, 9) == 0
    before = free_kib(nodes, "MemFree")
    assert nodes("sudo", "-n", "sh", "-c", "echo 1 > /proc/sys/vm/drop_caches").code == 0
    assert free_kib(nodes, "MemFree") - before == 20 * 1024**2
    assert in_blocks_kib(nodes, 9) == 0, "dropping caches alone does not compact"
    assert nodes("sudo", "-n", "sh", "-c", SETTLE).code == 0
    assert in_blocks_kib(nodes, 9) > 0.9 * free_kib(nodes, "MemFree")
    assert abs(in_blocks_kib(nodes) - free_kib(nodes, "MemFree")) < 8


def test_a_reserve_lowers_what_is_available_and_not_what_is_free(tmp_path: Path) -> None:
    """Raised by root with sysctl, it shows in /proc and takes half as much again from MemAvailable."""
    nodes = within(tmp_path)
    available, free = free_kib(nodes), free_kib(nodes, "MemFree")
    words = ("sysctl", "-w", "vm.min_free_kbytes=1045056")
    refused = nodes(*words)
    assert (refused.code, refused.err) == (1, "sysctl: permission denied on key 'vm.min_free_kbytes'\n")
    assert nodes.as_root(*words).out == "vm.min_free_kbytes = 1045056\n"
    assert (
        nodes("sysctl", "-n", "vm.min_free_kbytes").out
        == nodes("cat", "/proc/sys/vm/min_free_kbytes").out
        == "1045056\n"
    )
    assert (available - free_kib(nodes), free - free_kib(nodes, "MemFree")) == (1_500_000, 0)


def test_an_old_rank_is_everywhere_until_it_is_removed(tmp_path: Path) -> None:
    """All of docker, ps, nvidia-smi, ss and the memory know it; its name is taken; removed, it is gone from all of them."""
    fresh = free_kib(within(tmp_path / "healthy"))
    nodes = within(tmp_path / "old", Traits(containers=(OldContainer(ours=True, gpu_gib=80, host_gib=3),)))
    master = json.loads((nodes.home / "ports.json").read_text(encoding="utf-8"))["master"]

    def seen() -> tuple[str, bool, bool, bool, int]:
        return (
            nodes("docker", "ps", "--filter", "label=sparkctl.line=A", "--format", "{{.Names}}").out,
            "VLLM::Worker_TP0" in nodes("ps", "-eo", "pid=,args=").out,
            "VLLM::Worker_TP0" in nodes("nvidia-smi", "--query-compute-apps=name", "--format=csv").out,
            f"*:{master}" in nodes("ss", "-ltnp").out,
            fresh - free_kib(nodes),
        )

    assert seen() == ("sparkctl-a-rank0\n", True, True, True, 83 * 1024**2)
    told = json.loads(nodes("docker", "inspect", "sparkctl-a-rank0").out)[0]
    assert str(told["State"]["Pid"]) in nodes("ps", "-eo", "pid=,args=").out
    conflict = nodes(*RANK)
    assert (conflict.code, 'name "/sparkctl-a-rank0" is already in use' in conflict.err) == (125, True)
    assert nodes("docker", "rm", "sparkctl-a-rank0").code == 1, "it runs"
    assert nodes("docker", "stop", "-t", "5", told["Id"][:12]).code == 0
    assert nodes("docker", "ps", "-aq", "--no-trunc").out == told["Id"] + "\n"
    assert seen() == ("", False, False, False, 0)
    assert nodes("docker", "rm", "-f", "sparkctl-a-rank0", "nope").out == "sparkctl-a-rank0\n"
    assert nodes("docker", "ps", "-aq").out == ""


def test_killing_an_old_container_leaves_its_exit_code(tmp_path: Path) -> None:
    """A killed one ends with 137, which wait tells; killed again it does not run; one that nobody has is not there."""
    nodes = within(tmp_path, Traits(containers=(OldContainer(name="vllm_node"),)))
    assert nodes("docker", "kill", "vllm_node").out == "vllm_node\n"
    assert (
        nodes("docker", "inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", "vllm_node").out
        == "exited 137\n"
    )
    assert nodes("docker", "wait", "vllm_node").out == "137\n"
    again = nodes("docker", "kill", "vllm_node", "nope")
    assert (again.code, "is not running" in again.err, "No such container: nope" in again.err) == (
        1,
        True,
        True,
    )
    assert nodes("docker", "logs", "vllm_node").code == 0


def test_a_latched_clock_shows_under_load_and_not_at_rest(tmp_path: Path) -> None:
    """At rest the node looks like any other; the other load, GEMV, is the other fault's."""
    latched, healthy = (
        within(tmp_path / name, traits)
        for name, traits in (
            ("latched", Traits(burn=Burn(tflops=29.7, sm_mhz=611, power_w=14))),
            ("healthy", Traits()),
        )
    )
    at_rest = (
        "nvidia-smi",
        "--query-gpu=pstate,clocks.sm,power.draw,clocks_event_reasons.active",
        "--format=csv",
    )
    assert latched(*at_rest) == healthy(*at_rest)
    assert min(json.loads(healthy.probe("burn").out)["tflops"]) > 80
    assert max(json.loads(latched.probe("burn").out)["tflops"]) < 35
    assert min(json.loads(latched.probe("gemv").out)["gb_s"]) > 200


def test_a_frozen_rank_looks_busy_and_draws_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tells it from one that serves is the power: 16 to 27 W were seen beside 23 to 30 of a busy line."""
    nodes = within(tmp_path)
    asked = ("nvidia-smi", "--query-gpu=pstate,utilization.gpu,power.draw", "--format=csv,noheader")
    for frozen, said in ((False, "P0, 96 %, 25.10 W\n"), (True, "P0, 96 %, 18.60 W\n")):
        status = containers.Status("VLLM::Worker_TP0", 80_000, 3_072, running=2, frozen=frozen)
        monkeypatch.setattr(gpu, "load", lambda _, status=status: status)
        assert nodes(*asked).out == said
