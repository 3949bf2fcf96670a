"""What probes found, as values. Bytes are bytes, rates are bytes per second unless the name says GB/s (10^9 bytes)."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One command that ran on one node, exactly as it ended; the unit of a bundle.

    `rc` is None when the command was not run (then `stderr` says why), 124 after its time limit, 127 when the tool
    is not there.
    """

    probe: str
    argv: tuple[str, ...]
    rc: int | None
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecords:
    """All records of one node; `unreachable` says why there are none."""

    probes: tuple[Record, ...] = ()
    unreachable: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What probe.yml collected: enough, with its context, to judge elsewhere."""

    schema: int = 1
    nodes: Mapping[str, NodeRecords]
    context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A probe whose answer could not be read: why, and the text as it was seen. Never a number, never zero."""

    probe: str
    why: str
    seen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """/proc/meminfo in bytes. CUDA's free memory on GB10 is MemFree; vLLM's start check reads MemAvailable."""

    total: int
    free: int
    available: int
    cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU at one moment; None where the driver says `[N/A]`."""

    name: str
    driver: str
    pstate: str
    sm_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    utilisation_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A compute process on the GPU; `memory` in bytes, None where the driver does not say."""

    pid: int
    name: str
    memory: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """All compute processes on the GPU."""

    running: tuple[Process, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The running kernel's release."""

    release: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One network interface."""

    interface: str
    mtu: int
    is_up: bool
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """All network interfaces."""

    interfaces: tuple[Link, ...]

    def holding(self, address: str) -> Link | None:
        """Return the interface that has this address."""
        return next((link for link in self.interfaces if address in link.addresses), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A don't-fragment ping: who was asked, with how many payload bytes, and how many came back.

    `local_mtu` is set when our own interface refused the packet, which is another fault than silence on the path.
    """

    address: str
    payload: int
    sent: int
    received: int
    local_mtu: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The serving image on a node. `layers` is the content; `identity` may differ after save and load."""

    reference: str
    is_present: bool
    identity: str = ""
    layers: tuple[str, ...] = ()
    architecture: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of ours on a node; `since` is docker's own words, such as `Up 3 minutes`."""

    name: str
    state: str
    since: str
    rank: str
    boot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """All containers of this line on a node."""

    found: tuple[Container, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemv:
    """Decode-shaped matrix-vector bandwidth of each timed block, in GB/s."""

    blocks: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is known of one node."""

    node: str
    memory: Memory | Unread
    kernel: Kernel | Unread
    gpu: Gpu | Unread
    processes: Processes | Unread
    links: Links | Unread
    pings: tuple[Ping | Unread, ...]
    image: Image | Unread
    containers: Containers | Unread
    gemv: Gemv | Unread
    unreachable: str = ""
    hint: str = ""
