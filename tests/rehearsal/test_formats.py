"""What a practice node prints has the shape of what the real tools print; figures and names may differ, words may not."""

import json
import re
from pathlib import Path

import pytest

from rehearsal.scenario import Traits
from rehearsal.traits import OldContainer, Resident

from .conftest import Answer
from .within import IMAGE, SHARED, Within, everywhere, within

FORMATS = Path(__file__).parent / "formats"
PING = ("ping", "-M", "do", "-s", "8972", "-i", "0.2", "-W", "2", "-c")
GPU_FIELDS = "pstate,clocks.current.sm,clocks.max.sm,power.draw,utilization.gpu,temperature.gpu,clocks_event_reasons.active"
COLLECTIVE = (
    "docker",
    "run",
    "--rm",
    "--label",
    "sparkctl.probe=collective",
    "--entrypoint",
    "python3",
    "-e",
    "NCCL_DEBUG=INFO",
)


def shape(text: str) -> list[str]:
    """Return a text's lines with every figure, name of a node and run of blanks made alike."""
    for pattern, mark in (
        (r"\b(node-a|spark-a0)\b", "NODE"),
        (r"\b(en[pP]\d\w+|roceP?\w+)\b", "PORT"),
        (r"\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b", "MAC"),
        (r"\d+(\.\d+)*", "0"),
        (r"[ \t]+", " "),
    ):
        text = re.sub(pattern, mark, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def real(name: str) -> str:
    """Return what the real tool printed."""
    return (FORMATS / name).read_text(encoding="utf-8")


def test_a_healthy_nodes_meminfo_is_a_public_one(tmp_path: Path) -> None:
    """Every line with its name, its width, its figure and its unit."""
    assert within(tmp_path)("cat", "/proc/meminfo").out == real("01d-meminfo-healthy.txt")


@pytest.mark.parametrize(
    ("file", "traits", "command"),
    [
        pytest.param("24e-ping-ok.txt", Traits(), (*PING, "2", "127.0.78.2"), id="ping-answered"),
        pytest.param("26-ping-blackhole.txt", Traits(path_mtu=(1500, 1500)), (*PING, "3", "127.0.78.2"), id="ping-silence"),
        pytest.param("27-ibdev2netdev-one-cable.txt", Traits(unplugged=(True, False)), ("ibdev2netdev",), id="ibdev2netdev"),
        pytest.param(
            "41-nmcli-runtime-profile.txt",
            Traits(runtime_profile=True),
            ("nmcli", "-f", "NAME,UUID,TYPE,DEVICE,FILENAME", "connection", "show"),
            id="nmcli",
        ),
        pytest.param(
            "56-dev-shm-ls.txt", Traits(segments=("psm_1a2b3c4d", "sem.other_app", "nccl-AbCdEf")), ("ls", "-l", SHARED), id="ls"
        ),
        pytest.param(
            "01c-query-compute-apps.csv.txt",
            Traits(residents=(Resident(args="VLLM::Worker_TP0", gpu_gib=80),)),
            ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv"),
            id="compute-apps",
        ),
        pytest.param(
            "01b-query-gpu-mem-na.csv.txt",
            Traits(),
            ("nvidia-smi", "--query-gpu=memory.total,memory.used,memory.free,utilization.gpu,power.draw,temperature.gpu", "--format=csv"),
            id="gpu-memory",
        ),
        pytest.param(
            "15-csv-latched-under-load.txt",
            Traits(residents=(Resident(args="python3", gpu_gib=1, busy=True),)),
            ("nvidia-smi", f"--query-gpu=timestamp,{GPU_FIELDS}", "--format=csv"),
            id="gpu-under-load",
        ),
        pytest.param("49-exec-format.txt", Traits(image_architecture="amd64"), (*COLLECTIVE[:7], IMAGE), id="exec-format"),
    ],
)  # fmt: skip
def test_every_line_has_the_shape_of_a_real_one(
    tmp_path: Path, file: str, traits: Traits, command: tuple[str, ...]
) -> None:
    """No line of the node has a shape that the real tool's output lacks, and the header, if any, stands first."""
    said = within(tmp_path, traits)(*command)
    wanted = [entry(line) for line in shape(real(file))]
    found = [entry(line) for line in shape(said.out + said.err)]
    assert found
    assert set(found) <= set(wanted), said
    assert found[0] == wanted[0]


def entry(line: str) -> str:
    """Return a shape in which the names of segments, profiles, owners and programs are alike too."""
    line = re.sub(r"(psm_|nccl-|sem\.)\w+", "SEGMENT", line)
    line = re.sub(r"\b(root root|user user|spark spark)\b", "OWNER", line)
    line = re.sub(r"\b(Aug|Nov)\b", "MONTH", line)
    line = re.sub(r"-rw-(rw-rw-|------)", "MODE", line)
    line = re.sub(r"netplan-PORT|cx0-second", "PROFILE", line)
    line = re.sub(r"/usr/bin/\w+", "PROGRAM", line)
    return re.sub(r"\((Up|Down)\)", "STATE", line)


def test_ping_over_a_small_own_mtu_says_so_for_each_packet(tmp_path: Path) -> None:
    """The errors stand on stderr, the counts on stdout."""
    said = within(tmp_path, Traits(mtu=(1400, 9000)))(*PING, "2", "127.0.78.2")
    assert sorted(shape(said.out + said.err)) == sorted(shape(real("24c-ping-local-error.txt")))
    assert said.err == "ping: local error: message too long, mtu=1400\n" * 2


def test_ibv_devinfo_and_ip_have_every_field_of_the_real_ones(tmp_path: Path) -> None:
    """One adapter looks like a real one line by line, one interface key by key."""
    node = within(tmp_path, Traits(active_mtu=(1024, 1024)))
    adapter = real("24f-ibv_devinfo-mtu1024.txt").split("hca_id:")[1]
    assert shape(node("ibv_devinfo", "-d", "rocep1s0f0").out) == shape(f"hca_id:{adapter}")
    wanted = json.loads(real("24-ip-j-addr-node-a-9000.json"))[0]
    found = next(one for one in json.loads(node("ip", "-j", "addr").out) if one["ifname"] == "enp1s0f0np0")
    assert keys(found) == keys(wanted)
    assert found["flags"] == wanted["flags"]


def keys(value: object) -> object:
    """Return a JSON value's keys in their order, with what lies below them."""
    if isinstance(value, dict):
        return {key: keys(one) for key, one in value.items()}
    return [keys(one) for one in value] if isinstance(value, list) else ""


def collective(nodes: Within, *words: str) -> Answer:
    """Run the collective as rank 0 of so many ranks, with the environment given."""
    *environment, world = words
    settings = [part for one in environment for part in ("-e", one)]
    return nodes(*COLLECTIVE, *settings, IMAGE, "-c", "SCRIPT", "0", world, "127.0.78.1", "29501", "1024")


def test_nccl_says_over_which_adapters_it_goes(tmp_path: Path) -> None:
    """Over RDMA line by line as NCCL does, with both rails and with the one that is named."""
    nodes = within(tmp_path)
    said = collective(nodes, "NCCL_SOCKET_IFNAME=enp1s0f0np0", "2").out.splitlines()
    assert shape("\n".join(said[:-1])) == shape(real("36b-nccl-ib-good.txt"))
    assert json.loads(said[-1])["ranks"] == 2
    one = collective(nodes, "NCCL_IB_HCA=roceP2p1s0f0", "4").out
    assert "Using [0]roceP2p1s0f0:1/RoCE [RO]; OOB enP2p1s0f0np0:127.0.79.1<0>" in one


def test_nccl_falls_back_to_sockets_unless_that_is_forbidden(tmp_path: Path) -> None:
    """Without RDMA it says which network it uses; told to use RDMA alone it breaks off."""
    nodes = within(tmp_path, Traits(nccl_network="Socket"))
    said = collective(nodes, "2")
    assert shape("\n".join(said.out.splitlines()[:-1])) == shape(real("36-nccl-socket-fallback.txt"))
    pinned = collective(nodes, "NCCL_NET=IB", "2")
    assert (pinned.code, "NCCL error" in pinned.err, "busbw" in pinned.out) == (1, True, False)


def test_nccl_dies_in_a_ring_of_four_and_not_of_two(tmp_path: Path) -> None:
    """Its trees need a way to the node across."""
    ring = everywhere(tmp_path, Traits(cabling="ring"))
    said = collective(ring, "4")
    assert said.code == 1
    assert shape(said.out + said.err) == shape(real("37-nccl-tree-connect-ring.txt"))
    assert collective(ring, "2").code == 0


def test_ss_prints_a_row_for_each_socket_under_the_real_header(tmp_path: Path) -> None:
    """Rows have the real columns; programs of root are not named to anybody else."""
    node = within(tmp_path, Traits(listeners=("0.0.0.0:8888 jupyter-lab",)))
    header, *rows = node("ss", "-ltnp").out.splitlines()
    real_header, *real_rows = real("100-ss-ltnp-open.txt").splitlines()
    assert header == real_header
    pattern = re.compile(r'LISTEN +0 +\d+ +\S+:\d+ +\S+:\*( +users:\(\("[^"]+",pid=\d+,fd=\d+\)\))?')
    assert all(map(pattern.fullmatch, rows + real_rows))
    named = {row.split()[3]: "users:" in row for row in rows}
    assert named == {"0.0.0.0:22": False, "[::]:22": False, "0.0.0.0:8888": True}
    assert node.as_root("ss", "-ltnp").out.count("users:") == 3


def test_docker_inspect_tells_of_restarts_as_docker_does(tmp_path: Path) -> None:
    """Every key of a public inspect is there."""
    again = OldContainer(name="vllm_node", restart="unless-stopped", restarts=35, shared_gib=64)
    found = json.loads(within(tmp_path, Traits(containers=(again,)))("docker", "inspect", "vllm_node").out)[0]
    wanted = json.loads(real("13-docker-inspect-restart-loop.json"))[0]
    for part in ("State", "HostConfig"):
        assert set(wanted[part]) <= set(found[part])
    assert (found["RestartCount"], found["HostConfig"]["ShmSize"]) == (35, wanted["HostConfig"]["ShmSize"])
    assert found["HostConfig"]["RestartPolicy"] == wanted["HostConfig"]["RestartPolicy"]
