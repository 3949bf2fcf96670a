"""Probes: each a command, its limits and a pure parser. PROBES is the table; nothing here runs anything.

Adding a probe is adding a row here, a parser beside it and a case file under tests/bootcheck/cases/<probe>/.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bootcheck.facts import Record, Unread
from bootcheck.probes import container, fabric, gpu, memory, software

Parser = Callable[[Record], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a probe's command may depend on: the node's peers, the image, the line, the floors."""

    line: str
    image: str
    peer_addresses: tuple[str, ...]
    mtu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One kind of command that runs on a node.

    `argvs` gives the commands for a target (one per peer for a ping). `alone` keeps the node quiet while it runs.
    `only_if_quiet` names a probe that must have printed at most `most_lines` lines, or this one is not run.
    """

    name: str
    about: str
    argvs: Callable[[Target], tuple[tuple[str, ...], ...]]
    parse: Parser
    limit_s: float
    group: Literal["parallel", "alone"] = "parallel"
    only_if_quiet: str = ""
    most_lines: int = 0


PROBES: tuple[Probe, ...] = (
    Probe(
        name="memory",
        about="total, free and available memory, page cache",
        argvs=lambda _: (("cat", "/proc/meminfo"),),
        parse=memory.parse_meminfo,
        limit_s=5,
    ),
    Probe(
        name="kernel",
        about="running kernel",
        argvs=lambda _: (("uname", "-r"),),
        parse=software.parse_kernel,
        limit_s=5,
    ),
    Probe(
        name="gpu",
        about="driver, clocks, power, temperature, throttle reasons",
        argvs=lambda _: (gpu.GPU_ARGV,),
        parse=gpu.parse_gpu,
        limit_s=10,
    ),
    Probe(
        name="gpu-processes",
        about="compute processes on the GPU",
        argvs=lambda _: (gpu.PROCESSES_ARGV,),
        parse=gpu.parse_processes,
        limit_s=10,
    ),
    Probe(
        name="links",
        about="interfaces with addresses and MTU",
        argvs=lambda _: (("ip", "-j", "addr"),),
        parse=fabric.parse_links,
        limit_s=5,
    ),
    Probe(
        name="jumbo-ping",
        about="don't-fragment ping of full size to every fabric address of every other node",
        argvs=lambda target: tuple(fabric.ping_argv(peer, target.mtu) for peer in target.peer_addresses),
        parse=fabric.parse_ping,
        limit_s=10,
    ),
    Probe(
        name="image",
        about="the serving image and its layers",
        argvs=lambda target: (("docker", "image", "inspect", "--format", "{{json .}}", target.image),),
        parse=container.parse_image,
        limit_s=10,
    ),
    Probe(
        name="containers",
        about="containers of this line",
        argvs=lambda target: (container.list_argv(target.line),),
        parse=container.parse_containers,
        limit_s=10,
    ),
    Probe(
        name="gemv",
        about="decode-shaped GEMV bandwidth; not run while the GPU has a compute process",
        argvs=lambda target: (gpu.gemv_argv(target.image),),
        parse=gpu.parse_gemv,
        limit_s=120,
        group="alone",
        only_if_quiet="gpu-processes",
        most_lines=1,
    ),
)


def find(name: str) -> Probe | None:
    """Return the probe of that name."""
    return next((probe for probe in PROBES if probe.name == name), None)


def parse(record: Record) -> object:
    """Turn a record into its fact; a command that did not run, ran out of time or lacks its tool is Unread."""
    probe = find(record.probe)
    if probe is None:
        return Unread(probe=record.probe, why="no probe of this name", seen=record.stdout)
    if record.rc is None or record.rc in {124, 127}:
        return Unread(probe=record.probe, why=record.stderr.strip() or "not run", seen=record.stdout)
    return probe.parse(record)
