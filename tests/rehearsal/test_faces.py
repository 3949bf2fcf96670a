"""A node's own commands, run as executables: they answer like the real tools, from one hidden state."""

import csv
import json
import os
import re
import signal
import statistics
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from rehearsal import node
from rehearsal.scenario import Traits, named
from rehearsal.traits import OldContainer

from .conftest import Answer, Face, furnished, with_node

QUERY = (
    "name,driver_version,pstate,clocks.current.sm,clocks.max.sm,power.draw,temperature.gpu,utilization.gpu,"
    "clocks_event_reasons.active"
)
DROP = "sync; echo 3 > /proc/sys/vm/drop_caches"
GEMV = ("--label", "sparkctl.probe=gemv", "--gpus", "all", "--network", "none", "--entrypoint", "python3")


def meminfo(face: Face) -> dict[str, int]:
    """Return /proc/meminfo in KiB."""
    return {key: int(kib) for key, kib in re.findall(r"(\w+):\s+(\d+) kB", face("cat", "/proc/meminfo").out)}


def test_nvidia_smi_answers_the_fields_asked_in_their_order(face: Face) -> None:
    """The header carries units as the real tool prints them, memory is [N/A], and an idle GPU looks idle."""
    rows = list(csv.reader(face("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv").out.splitlines()))
    assert [cell.strip() for cell in rows[0]][3:6] == [
        "clocks.current.sm [MHz]",
        "clocks.max.sm [MHz]",
        "power.draw [W]",
    ]
    assert [cell.strip() for cell in rows[1]][:3] == ["NVIDIA GB10", "580.173.02", "P8"]
    asked = face("nvidia-smi", "--query-gpu=memory.total,name", "--format=csv,noheader").out
    assert asked == "[N/A], NVIDIA GB10\n"
    apps = face("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv").out
    assert apps == "pid, process_name, used_gpu_memory [MiB]\n"
    assert "NVIDIA GB10" in face("nvidia-smi").out


def test_ip_lists_both_rails_with_their_mtu(face: Face) -> None:
    """The JSON holds each fabric interface with address and MTU."""
    links = {link["ifname"]: link for link in json.loads(face("ip", "-j", "addr").out)}
    assert links["enp1s0f0np0"]["mtu"] == links["enP2p1s0f0np0"]["mtu"] == 9000
    assert links["enp1s0f0np0"]["addr_info"][0]["local"] == "127.0.78.1"


def test_ping_reaches_every_peer_with_jumbo_frames(face: Face) -> None:
    """Two packets of 8972 bytes come back on both rails."""
    for address in ("127.0.78.4", "127.0.79.2"):
        said = face("ping", "-M", "do", "-s", "8972", "-c", "2", "-i", "0.2", "-W", "2", address)
        assert said.code == 0
        assert f"8980 bytes from {address}: icmp_seq=2 ttl=64" in said.out
        assert "2 packets transmitted, 2 received, 0% packet loss" in said.out


def test_ping_tells_an_own_small_mtu_from_a_silent_path(tmp_path: Path) -> None:
    """The node with MTU 1500 says so itself; its peers hear nothing; the HCA shows it too."""
    told = with_node(named("healthy"), "spark-a1", Traits(mtu=(9000, 1500)))
    small = furnished(tmp_path / "small", told, "spark-a1")
    own = small("ping", "-M", "do", "-s", "8972", "-c", "2", "-W", "2", "127.0.79.1")
    assert own.code == 1
    assert own.err.count("ping: local error: message too long, mtu=1500\n") == 2
    assert "0 received, +2 errors, 100% packet loss" in own.out
    peer = furnished(tmp_path / "peer", told, "spark-a0")
    far = peer("ping", "-M", "do", "-s", "8972", "-c", "2", "-W", "2", "127.0.79.2")
    assert (far.code, far.err) == (1, "")
    assert "2 packets transmitted, 0 received, 100% packet loss" in far.out
    assert re.findall(r"active_mtu:\s+(\d+)", small("ibv_devinfo").out) == ["4096", "1024"]


def test_dropping_caches_empties_the_simulated_page_cache_alone(tmp_path: Path) -> None:
    """Page cache shrinks MemFree, not MemAvailable, until the settle's line drops it."""
    dirty = furnished(tmp_path / "n", with_node(named("healthy"), "spark-a0", Traits(cached_gib=40.0)))
    before = meminfo(dirty)
    assert dirty("sudo", "-n", "sh", "-c", DROP).code == 0
    after = meminfo(dirty)
    assert after["MemFree"] - before["MemFree"] == 40 * 1024**2
    assert abs(after["MemAvailable"] - before["MemAvailable"]) < 1024**2
    assert after["MemTotal"] == 127600412


def test_sudo_runs_nothing_of_the_real_machine(face: Face, tmp_path: Path) -> None:
    """Anything but a face and the settle's line is refused as sudo refuses it."""
    refused = face("sudo", "-n", "touch", str(tmp_path / "made"))
    assert (refused.code, refused.err) == (1, "sudo: a password is required\n")
    assert not (tmp_path / "made").exists()
    assert face("sudo", "-n", "uname", "-r").out == face("uname", "-r").out


def test_the_gemv_probe_sees_the_hidden_state(tmp_path: Path) -> None:
    """One JSON line whose median is the node's figure: 230 on a healthy node, 70 on the slow one."""
    for scenario, figure in (("healthy", 230), ("slow-node", 70)):
        told = furnished(tmp_path / scenario, named(scenario), "spark-a2")
        said = told("docker", "run", "--rm", *GEMV, "sparkctl/vllm:1", "-c", "ignored")
        assert said.code == 0
        probe = json.loads(said.out)
        assert statistics.median(probe["gb_s"]) == pytest.approx(figure, rel=0.02)
        assert len(probe["seconds"]) == len(probe["gb_s"])


def test_docker_image_inspect_knows_what_the_node_holds(face: Face) -> None:
    """A held image has id and layers, the same on every node; another is not there."""
    held = json.loads(
        face("docker", "image", "inspect", "--format", "{{json .}}", "sparkctl/vllm-dsv41:1").out
    )
    assert held["Id"].startswith("sha256:")
    assert held["RootFS"]["Layers"]
    missing = face("docker", "image", "inspect", "busybox:1")
    assert (missing.code, missing.out, missing.err) == (1, "[]\n", "Error: No such image: busybox:1\n")


def test_nvidia_smi_refuses_an_unknown_field(face: Face) -> None:
    """The tool names the field, on stdout, and exits with 2."""
    said = face("nvidia-smi", "--query-gpu=name,frob", "--format=csv")
    assert (said.code, said.out) == (2, 'Field "frob" is not a valid field to query.\n\n')


def test_a_torn_state_is_a_line_and_not_a_traceback(face: Face, tmp_path: Path) -> None:
    """A node whose state file is broken says so in one line."""
    (tmp_path / "a home" / "spark-a0" / "state.json").write_text("{", encoding="utf-8")
    said = face("uname", "-r")
    assert said.code == 1
    assert said.err.startswith("uname: ")
    assert said.err.count("\n") == 1


def test_everything_else_goes_through_the_real_tool(face: Face, tmp_path: Path) -> None:
    """Only what a practice node has of its own is answered for it; names and files of the machine stay the machine's."""
    (tmp_path / "text").write_text("as it is\n", encoding="utf-8")
    path = str(tmp_path / "text")
    for command, said in (
        (("cat", path), "as it is\n"),
        (("grep", "-c", "as", path), "1\n"),
        (("ls", str(tmp_path / "text")), f"{path}\n"),
        (("stat", "-c", "%s", path), "9\n"),
        (("find", path, "-name", "text"), f"{path}\n"),
        (("sha256sum", path), f"{sha256(b'as it is' + bytes([10])).hexdigest()}  {path}\n"),
        (("python3", "-c", "import sys; print(sys.argv[1:])", "a b", "*"), "['a b', '*']\n"),
        (
            ("cat", path, "/proc/cmdline"),
            "as it is\nBOOT_IMAGE=/boot/vmlinuz-6.17.0-1032-nvidia root=/dev/nvme0n1p2 ro quiet splash\n",
        ),
    ):
        assert face(*command) == Answer(code=0, out=said, err="")
    assert face("getconf", "ARG_MAX").out == f"{os.sysconf('SC_ARG_MAX')}\n"
    assert face("getconf", "PAGESIZE").out == "4096\n"


def test_a_hanging_gpu_does_not_answer_and_can_be_ended(tmp_path: Path) -> None:
    """nvidia-smi says nothing until somebody ends it."""
    told = with_node(named("healthy"), "spark-a0", Traits(gpu_hangs=True))
    furnished(tmp_path, told)
    hanging = subprocess.Popen(
        [str(tmp_path / "spark-a0" / "bin" / "nvidia-smi"), "-L"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with hanging:
        with pytest.raises(subprocess.TimeoutExpired):
            hanging.wait(0.3)
        hanging.terminate()
        assert hanging.wait(5) == -signal.SIGTERM


def test_sudo_knows_its_rules_and_no_other(tmp_path: Path) -> None:
    """Settling, an interface's MTU and kernel settings are root's; without a password none of it is done."""
    asked = (
        ("sh", "-c", f"{DROP}; echo 1 > /proc/sys/vm/compact_memory"),
        ("ip", "link", "set", "dev", "enp1s0f0np0", "mtu", "4200"),
        ("sysctl", "-w", "vm.min_free_kbytes=1048576"),
    )
    for fault, code in (("", 0), ("password", 1)):
        told = furnished(
            tmp_path / f"a {fault}",
            with_node(named("healthy"), "spark-a0", Traits(sudo_fault=fault, cached_gib=9)),
        )
        said = [told("sudo", "-n", *words) for words in asked]
        assert [one.code for one in said] == [code] * 3
        assert all(one.err == ("sudo: a password is required\n" if code else "") for one in said)
        cached = meminfo(told)["Cached"]
        settings = (
            told("sysctl", "-n", "vm.min_free_kbytes").out,
            json.loads(told("ip", "-j", "addr").out)[2]["mtu"],
        )
        assert (cached > 9_000_000, settings) == (
            bool(code),
            ("45056\n", 9000) if code else ("1048576\n", 4200),
        )
    assert told("sudo").err.startswith("usage: sudo")


def test_docker_inspects_every_container_of_a_pipe(tmp_path: Path) -> None:
    """The list of ids and the inspection of several go through a shell of the node as on a real one."""
    two = tuple(
        OldContainer(name=name, restart=policy) for name, policy in (("one", "no"), ("two", "always"))
    )
    told = furnished(tmp_path, with_node(named("healthy"), "spark-a0", Traits(containers=two)))
    path = f"{tmp_path / 'spark-a0' / 'bin'}:/usr/bin:/bin"
    line = "docker ps -aq --no-trunc | xargs -r docker inspect"
    ran = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, env={"PATH": path})
    found = {one["Name"]: one["HostConfig"]["RestartPolicy"]["Name"] for one in json.loads(ran.stdout)}
    assert found == {"/one": "no", "/two": "always"}
    assert told("docker", "rm", "-f", "one", "two").out == "one\ntwo\n"
    assert (
        subprocess.run(["sh", "-c", line], capture_output=True, check=True, env={"PATH": path}).stdout == b""
    )


def test_state_files_are_written_whole(tmp_path: Path) -> None:
    """A reader during a write sees the old text or the new one."""
    path = tmp_path / "state.json"
    node.write_json(path, [1] * 1000)
    node.write_json(path, [2] * 1000)
    assert node.read_json(path) == [2] * 1000
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]
