"""Each trait of a node shows in the command that tells of it, and a healthy node shows nothing of the kind."""

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from rehearsal.node import Rail
from rehearsal.scenario import Traits
from rehearsal.traits import Burn, Filesystem, OldContainer, Resident, Throttle

from .within import IMAGE, MODEL, SHARED, within

GPU = ("nvidia-smi", "--format=csv,noheader")
GIDS = "/sys/class/infiniband/rocep1s0f0/ports/1/gid_attrs/types"
MOUNT = ("findmnt", "-J", "-o", "TARGET,SOURCE,FSTYPE,OPTIONS", "-T")
INSPECT = ("docker", "image", "inspect", "--format", "{{json .}}", IMAGE)
PROBE = ("docker", "run", "--rm", "--entrypoint", "python3", "--label")
COLLECTIVE = (
    *PROBE,
    "sparkctl.probe=collective",
    "-e",
    "NCCL_DEBUG=INFO",
    IMAGE,
    "-c",
    "S",
    "0",
    "4",
    "A",
    "1",
    "99",
)
RUNTIME = (*PROBE, "sparkctl.probe=runtime", "-v", f"{MODEL}:/m:ro", IMAGE, "-c", "S", "/m")
PS = ("ps", "-eo", "args=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trait that is not the default, a command of the node, and what only that trait makes it say."""

    traits: Traits
    command: tuple[str, ...]
    says: str


CASES = {
    "kernel": Case(traits=Traits(kernel="7.0.0-1019-nvidia"), command=("uname", "-r"), says=r"^7\.0\.0-1019-nvidia$"),
    "kernel_arguments": Case(
        traits=Traits(kernel_arguments="ro kho=off"), command=("cat", "/proc/cmdline"), says=r"/vmlinuz-6\S+ .* ro kho=off$"
    ),
    "driver": Case(traits=Traits(driver="580.142"), command=(*GPU, "--query-gpu=driver_version"), says=r"^580\.142$"),
    "bios": Case(
        traits=Traits(bios="5.36_0ACUM018"), command=("grep", "-H", ".", "/sys/class/dmi/id/bios_version"), says=r":5\.36_0ACUM018$"
    ),
    "firmware": Case(traits=Traits(firmware="28.43.3608"), command=("ibv_devinfo",), says=r"^\tfw_ver:\t+28\.43\.3608$"),
    "docker_version": Case(
        traits=Traits(docker_version="27.5.1"), command=("docker", "info", "--format", "{{.ServerVersion}}"), says=r"^27\.5\.1$"
    ),
    "cached_gib": Case(traits=Traits(cached_gib=40), command=("cat", "/proc/meminfo"), says=r"^Cached: +4267\d{4} kB$"),
    "fragmented": Case(traits=Traits(fragmented=True), command=("cat", "/proc/buddyinfo"), says=r"Normal .* 0 +0 $"),
    "cma_free_kib": Case(
        traits=Traits(cma_free_kib=9_437_184), command=("cat", "/proc/meminfo"), says=r"^CmaFree: +9437184 kB$"
    ),
    "min_free_kib": Case(
        traits=Traits(min_free_kib=4_194_304), command=("cat", "/proc/sys/vm/min_free_kbytes"), says=r"^4194304$"
    ),
    "swap_used_gib": Case(traits=Traits(swap_used_gib=2), command=("cat", "/proc/meminfo"), says=r"^SwapFree: +14680060 kB$"),
    "killer": Case(traits=Traits(killer="/usr/bin/earlyoom -m 12"), command=PS, says=r"^/usr/bin/earlyoom -m 12$"),
    "residents": Case(
        traits=Traits(residents=(Resident(args="python3 train.py", host_gib=3),)), command=PS, says=r"^python3 train\.py$"
    ),
    "gemv_gb_s": Case(
        traits=Traits(gemv_gb_s=70), command=(*PROBE, "sparkctl.probe=gemv", IMAGE), says=r'"gb_s": \[(6|7)\d\.'
    ),
    "burn": Case(
        traits=Traits(burn=Burn(tflops=29.7, sm_mhz=611, power_w=14, temperature_c=48)),
        command=(*PROBE, "sparkctl.probe=burn", IMAGE),
        says=r'"tflops": \[(29|30)\..*"sm_mhz": \[6\d\d, .*"power_w": \[1[345]\..*"temperature_c": \[48, ',
    ),
    "throttle": Case(
        traits=Traits(throttle=Throttle(active="0x0000000000000020", sw_thermal_slowdown_us=5_000_000)),
        command=(*GPU, "--query-gpu=clocks_event_reasons.active,clocks_event_reasons_counters.sw_thermal_slowdown"),
        says=r"^0x0000000000000020, 5000000 us$",
    ),
    "mtu": Case(traits=Traits(mtu=(9000, 1500)), command=("ip", "-j", "addr"), says=r'"enP2p1s0f0np0".*"mtu":1500'),
    "active_mtu": Case(traits=Traits(active_mtu=(0, 1024)), command=("ibv_devinfo",), says=r"active_mtu:\t+1024 \(3\)$"),
    "path_mtu": Case(
        traits=Traits(path_mtu=(4200, 9216)), command=("ping", "-M", "do", "-s", "8972", "127.0.78.3"), says=r" 100% packet loss,"
    ),
    "gid_index": Case(
        traits=Traits(gid_index=(5, 3)), command=("grep", "-rHs", "RoCE v2", GIDS), says=r"^/sys\S+types/5:RoCE v2$"
    ),
    "speed_mbit": Case(
        traits=Traits(speed_mbit=(100_000, 200_000)),
        command=("grep", ".", "/sys/class/net/enp1s0f0np0/speed"),
        says=r"^100000$",
    ),
    "link_gbit": Case(traits=Traits(link_gbit=(13, 92)), command=COLLECTIVE, says=r'"busbw_gb_s": \[1[34]\.'),
    "busbw_gb_s": Case(traits=Traits(busbw_gb_s=(1.5, 1.5)), command=COLLECTIVE, says=r'"busbw_gb_s": \[(2\.9|3\.0)'),
    "unplugged": Case(
        traits=Traits(unplugged=(True, False)), command=("ibdev2netdev",), says=r"^rocep1s0f0 port 1 ==> enp1s0f0np0 \(Down\)$"
    ),
    "prefixes": Case(traits=Traits(prefixes=(23, 23)), command=("ip", "-j", "addr"), says=r'"prefixlen":23'),
    "cabling": Case(traits=Traits(cabling="ring"), command=("ip", "-j", "addr"), says=r'"ifname":"enp1s0f1np1"'),
    "interfaces": Case(
        traits=Traits(interfaces=("enp1s0f1np1", "enP2p1s0f1np1")), command=("ip", "-j", "addr"), says=r'"ifname":"enp1s0f1np1"'
    ),
    "runtime_profile": Case(
        traits=Traits(runtime_profile=True),
        command=("nmcli", "-f", "NAME,FILENAME", "connection", "show"),
        says=r"^cx7-second +/run/",
    ),
    "nccl_network": Case(traits=Traits(nccl_network="Socket"), command=COLLECTIVE, says=r"NCCL INFO Using network Socket$"),
    "images": Case(traits=Traits(images=()), command=INSPECT, says=r"^Error: No such image: sparkctl/vllm-dsv41-exl3:0\.33\.0$"),
    "image_architecture": Case(
        traits=Traits(image_architecture="amd64"), command=(*PROBE, "sparkctl.probe=gemv", IMAGE), says=r"exec format error$"
    ),
    "image_env": Case(traits=Traits(image_env=("NCCL_IB_TC=106",)), command=INSPECT, says=r'"NCCL_IB_TC=106"\]'),
    "image_store": Case(
        traits=Traits(image_store="containerd"), command=("docker", "info", "--format", "{{json .}}"), says=r"io\.containerd\.snapshotter"
    ),
    "docker_free_gib": Case(
        traits=Traits(docker_free_gib=20.0), command=("df", "--block-size=1", "--output=avail", "/var/lib/docker"), says=r"^ *21474836480$"
    ),
    "nccl_conf": Case(traits=Traits(nccl_conf="NCCL_IB_TC=1\n"), command=RUNTIME, says=r'"nccl_conf": "NCCL_IB_TC=1\\n"'),
    "ptxas_targets": Case(traits=Traits(ptxas_targets=("sm_120",)), command=RUNTIME, says=r'"ptxas": "\S+ release 13\.0, \S+ sm_120"'),
    "model_files": Case(
        traits=Traits(model_files="incomplete"), command=("find", "-L", MODEL, "-printf", r"%P\n"), says=r"\.incomplete$"
    ),
    "model_filesystem": Case(
        traits=Traits(model_filesystem=Filesystem(kind="nfs4", source="192.0.2.20:/export")),
        command=(*MOUNT, MODEL),
        says=r'"options": "rw,.*addr=192\.0\.2\.20"',
    ),
    "cache_filesystem": Case(
        traits=Traits(cache_filesystem=Filesystem(kind="nfs4", source="192.0.2.20:/export")),
        command=(*MOUNT, "/srv/sparkctl-cache"),
        says=r'"fstype": "nfs4"',
    ),
    "absent_mounts": Case(
        traits=Traits(absent_mounts=("/srv/engram-local",)),
        command=("stat", "-L", "-c", "%F", "/srv/engram-local"),
        says=r"^stat: cannot statx '/srv/engram-local': No such file or directory$",
    ),
    "containers": Case(
        traits=Traits(containers=(OldContainer(ours=True, state="exited"),)),
        command=("docker", "ps", "-a", "--format", "{{.Names}} {{.State}}"),
        says=r"^sparkctl-a-rank0 exited$",
    ),
    "taken_port": Case(traits=Traits(taken_port="api"), command=("ss", "-ltnp"), says=r'^LISTEN .*users:\(\("python3",pid='),
    "listeners": Case(
        traits=Traits(listeners=("0.0.0.0:8888 jupyter-lab",)), command=("ss", "-ltnp"), says=r' 0\.0\.0\.0:8888 .*"jupyter-lab"'
    ),
    "segments": Case(
        traits=Traits(segments=("psm_1a2b3c4d",)), command=("ls", "-l", SHARED), says=r"^-rw------- 1 root root .* psm_1a2b3c4d$"
    ),
}  # fmt: skip

COMPARED = {
    "image_build": INSPECT,
    "image_reloaded": INSPECT,
    "nccl_build": RUNTIME,
    "patch_build": ("sha256sum", "/srv/patches/a.py"),
}
"""Traits that show only beside another node."""

ELSEWHERE = {"gpu_hangs", "rank_fault", "serve_fault", "ssh_fault", "sudo_fault"}
"""Traits that show in how long or whether something answers; they have tests of their own."""


@pytest.mark.parametrize("name", CASES)
def test_a_trait_shows_in_its_command_and_only_with_it(tmp_path: Path, name: str) -> None:
    """The command says it on the node that has the trait, and not on a healthy one."""
    case = CASES[name]
    pattern = re.compile(case.says, re.MULTILINE)
    said = within(tmp_path / "with", case.traits)(*case.command)
    assert pattern.search(said.out + said.err), said
    healthy = within(tmp_path / "without")(*case.command)
    assert not pattern.search(healthy.out + healthy.err), healthy


@pytest.mark.parametrize(("name", "command"), COMPARED.items())
def test_a_trait_of_content_shows_beside_another_node(
    tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    """Healthy nodes agree on content; the one with the trait differs."""
    changed: dict[str, Any] = {name: True if name == "image_reloaded" else "another"}
    nodes = within(tmp_path, replace(Traits(), **changed), "spark-a1")
    alike, also, other = (
        without_folder(nodes(*command, node=node).out) for node in ("spark-a0", "spark-a2", "spark-a1")
    )
    assert alike == also != other


def without_folder(text: str) -> str:
    """Return docker's words without the folder it unpacked an image into, which is each node's own."""
    return re.sub(r"/overlay2/\w+", "", text)


def test_every_trait_is_tried() -> None:
    """A new trait comes with a command in which it shows."""
    assert {one.name for one in fields(Traits)} == {*CASES, *COMPARED, *ELSEWHERE}


def test_a_rail_by_itself_is_a_healthy_one() -> None:
    """The defaults of a rail are those of a healthy node's traits."""
    rail, healthy = Rail("enp1s0f0np0", "127.0.78.1", "rocep1s0f0", 9000), Traits()
    assert (rail.prefix, rail.path_mtu, rail.gid_index, rail.speed_mbit) == (
        healthy.prefixes[0],
        healthy.path_mtu[0],
        healthy.gid_index[0],
        healthy.speed_mbit[0],
    )
    assert (rail.link_gbit, rail.busbw_gb_s, rail.is_up) == (
        healthy.link_gbit[0],
        healthy.busbw_gb_s[0],
        not healthy.unplugged[0],
    )
