"""What one practice node is like, trait by trait. The defaults are a healthy node; a scenario names only what differs.

A node's commands read the same fields from `state.json` (see `rehearsal.node`). Figures are other people's, named beside
them; none was measured by us on a GB10.
"""

from dataclasses import dataclass, field
from typing import Literal

from rehearsal.model import GEMV_FAST_GB_S

RankFault = Literal["", "dies-loading", "silent-loading", "starves", "freezes", "engram-unusable"]
"""What goes wrong with a rank: it ends while it loads, goes on without a word, takes the node's memory, stops serving, or serves zeros
for the rows of a table that it cannot read."""

ServeFault = Literal["", "loops", "runs-past-end", "goes-empty", "warm-cache", "second-client", "turns-slow"]
"""What goes wrong with a line that serves, once answers get long: they loop, run past their end, or are empty; prompts come from a
cache that another bench left warm; somebody else asks too; the node falls into the slow state."""

SshFault = Literal["", "refused", "other-host-key", "other-user", "no-python"]
SudoFault = Literal["", "password", "slow"]

ModelFiles = Literal[
    "complete", "absent", "empty", "shard-missing", "shard-short", "shard-other", "incomplete", "dangling"
]
"""The model's folder: not there, empty, without a shard, with a shard cut short or of other content, with an unfinished
download, or with a link to nothing (JustVugg/colibri#1317, Reederey87/glm53-flash-exl3-2x-dgx-spark#29, reported)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """What the GPU reaches under a load of dense products; healthy as in Blackwellboy/model-serving-minefield PR#55 (reported)."""

    tflops: float = 88.0
    sm_mhz: int = 2170
    power_w: float = 85.0
    temperature_c: int = 66


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """What holds the clocks back: nvidia-smi's bit mask, and its counters in microseconds since the driver was loaded."""

    active: str = "0x0000000000000000"
    sw_power_cap_us: int = 0
    hw_thermal_slowdown_us: int = 0
    hw_power_brake_slowdown_us: int = 0
    sw_thermal_slowdown_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A process that no container of ours accounts for; what it holds is gone from MemFree and MemAvailable."""

    args: str
    """Its command line as ps shows it."""
    host_gib: float = 0.0
    gpu_gib: float = 0.0
    """Above 0 it is a compute process of the GPU."""
    told: bool = True
    """Whether nvidia-smi says how much it holds there; `[N/A]` if not (XuehaiPan/nvitop#208, reported)."""
    busy: bool = False
    """Whether it keeps the GPU working."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldContainer:
    """A container that was there before; one of `ours` is the rank of an earlier boot of the line on this node."""

    ours: bool = False
    name: str = ""
    """May be left out for one of ours."""
    image: str = "vllm/vllm-openai:latest"
    state: Literal["running", "exited"] = "running"
    restart: str = "no"
    restarts: int = 0
    env: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    gpus: bool = True
    """Whether it was given the GPU."""
    gpu_gib: float = 0.0
    host_gib: float = 0.0
    shared_gib: float = 0.0625
    """What its /dev/shm may grow to; docker's own size is 64 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filesystem:
    """Where a folder lies: `source` is a device or SERVER:/EXPORT."""

    kind: str = "ext4"
    source: str = "/dev/nvme0n1p2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What one node is like. Fields that are tuples of figures have one for each rail."""

    kernel: str = "6.17.0-1032-nvidia"
    """Kernel, driver and BIOS of a fleet that never showed the slow state (tonyd2wild/DeepSeek-V4.1-Flash-vLLM-DGX-Spark#1)."""
    driver: str = "580.173.02"
    bios: str = "5.36_0ACUM027"
    kernel_arguments: str = "ro quiet splash"
    firmware: str = "28.45.4028"
    """Of both halves of the ConnectX-7."""
    docker_version: str = "28.2.2"

    cached_gib: float = 0.0
    """Page cache at the start, beyond the little a fresh node has; dropping caches empties it."""
    fragmented: bool = False
    """No free block of 2 MiB or more, until memory is compacted (MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#23, reported)."""
    cma_free_kib: int = 120_784
    """Beside a CmaTotal of 131072; far above it on kernel 7.0.0-1019 (NVIDIA/NV-Kernels#590, reported)."""
    min_free_kib: int = 45_056
    """vm.min_free_kbytes, here the kernel's own value on a GB10 (reported); what is reserved lowers MemAvailable."""
    swap_used_gib: float = 0.0
    killer: str = ""
    """Command line of a process that ends others when memory is low, such as `/usr/bin/earlyoom -m 12 -s 100`."""
    residents: tuple[Resident, ...] = ()

    gemv_gb_s: float = GEMV_FAST_GB_S
    """The hidden state: what the GEMV probe sees, and what the served step time follows."""
    burn: Burn = field(default_factory=Burn)
    throttle: Throttle = field(default_factory=Throttle)
    gpu_hangs: bool = False
    """nvidia-smi does not answer: it once blocked for 1,105 s (0xSero/local-ai-registry, reported)."""

    mtu: tuple[int, ...] = (9000, 9000)
    active_mtu: tuple[int, ...] = (0, 0)
    """RoCE's MTU; 0 is the largest that fits into the port's."""
    path_mtu: tuple[int, ...] = (9216, 9216)
    """What the switch port passes; larger packets vanish (0xSero/local-ai-registry PR#55, reported)."""
    gid_index: tuple[int, ...] = (3, 3)
    """Where the RoCE v2 entry of the IPv4 address stands: odd; -1 when there is none (moves between reboots, reported)."""
    speed_mbit: tuple[int, ...] = (200_000, 200_000)
    """What the port claims."""
    link_gbit: tuple[float, ...] = (92.0, 92.0)
    """What a transfer reaches; ours, chosen: a port of 200 Gbit/s is two halves of about 100."""
    busbw_gb_s: tuple[float, ...] = (11.85, 11.85)
    """NCCL's bus bandwidth over the rail: half of the 23.7 over both (NVIDIA/dgx-spark-playbooks PR#103, reported)."""
    unplugged: tuple[bool, ...] = (False, False)
    prefixes: tuple[int, ...] = (24, 24)
    """Lengths of the netmasks; 23 puts both rails into one subnet."""
    cabling: Literal["switch", "ring"] = "switch"
    """Both rails over one port to a switch, or p0 to the next node and p1 to the one before, a subnet for each cable."""
    interfaces: tuple[str, ...] = ()
    """Names of the fabric interfaces where they are not those of the inventory."""
    runtime_profile: bool = False
    """The second rail's settings lie in /run and are gone after a reboot."""
    nccl_network: Literal["IB", "Socket"] = "IB"

    images: tuple[str, ...] = ("*vllm*", "*dsv41*", "*v41*", "*sparkctl*")
    """Patterns of the image references that the node holds."""
    image_build: str = ""
    """Names another build under the same reference: other layers, other digest."""
    image_reloaded: bool = False
    """The image came by docker save and load: another Id and no digest, the same layers (Richard0571, reported)."""
    image_store: Literal["overlay2", "containerd"] = "overlay2"
    image_architecture: Literal["arm64", "amd64"] = "arm64"
    docker_free_gib: float = 1800.0
    """Room in the folder of docker; ours, chosen: half of a 4 TB disk."""
    image_env: tuple[str, ...] = ()
    """NAME=VALUE that the image sets beyond the usual."""
    nccl_build: str = ""
    """Names another binary of the same NCCL version (vllm-project/vllm#42354, reported)."""
    nccl_conf: str = ""
    """/etc/nccl.conf in the image; empty when there is none."""
    ptxas_targets: tuple[str, ...] = ("sm_100", "sm_100a", "sm_120", "sm_120a", "sm_121", "sm_121a")
    patch_build: str = ""
    """Names other content of the patched files that are bound into the container."""

    model_files: ModelFiles = "complete"
    model_filesystem: Filesystem = field(default_factory=Filesystem)
    cache_filesystem: Filesystem = field(default_factory=Filesystem)
    absent_mounts: tuple[str, ...] = ()
    """Bind sources that are not there; docker makes an empty folder of each that it is asked to bind."""

    containers: tuple[OldContainer, ...] = ()
    taken_port: Literal["", "api", "master"] = ""
    """Which of the line's ports another program listens on."""
    listeners: tuple[str, ...] = ()
    """Further listening sockets, `ADDRESS:PORT PROGRAM`."""
    segments: tuple[str, ...] = ()
    """What lies in /dev/shm."""

    rank_fault: RankFault = ""
    serve_fault: ServeFault = ""
    ssh_fault: SshFault = ""
    sudo_fault: SudoFault = ""
