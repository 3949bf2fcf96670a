"""Software of a node: running kernel and its arguments, BIOS, docker. The driver comes with the GPU probe."""

import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes.probe import Probe

_RELEASE = re.compile(r"^\d+\.\d+\S*$")
_DMI = re.compile(r"^\S*/dmi/id/(bios_version|product_name):[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_CONTAINERD = "io.containerd.snapshotter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The running kernel's release."""

    probe: ClassVar[str] = "kernel"

    release: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelArguments:
    """What the running kernel was started with, word by word."""

    probe: ClassVar[str] = "kernel-arguments"

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bios:
    """The machine's BIOS and its product name; empty where the machine does not say."""

    probe: ClassVar[str] = "bios"

    version: str
    product: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Docker:
    """The docker daemon. An image's Id is another thing in containerd's image store than in the classic one."""

    probe: ClassVar[str] = "docker"

    version: str
    driver: str
    has_containerd_store: bool
    architecture: str

    @property
    def store(self) -> str:
        """The image store, in words."""
        return f"{'containerd' if self.has_containerd_store else 'classic'} image store ({self.driver})"


def parse_kernel(record: Record) -> Kernel | Unread:
    """Read `uname -r`."""
    release = record.stdout.strip()
    if not _RELEASE.match(release):
        return unread(record, "not a kernel release")
    return Kernel(release=release)


def parse_kernel_arguments(record: Record) -> KernelArguments | Unread:
    """Read `cat /proc/cmdline`: one line, which may be empty."""
    if record.rc != 0 or len(record.stdout.splitlines()) != 1:
        why = record.stderr.strip() or "not the one line of /proc/cmdline"
        return unread(record, why)
    return KernelArguments(words=tuple(record.stdout.split()))


def parse_bios(record: Record) -> Bios | Unread:
    """Read `grep -H . /sys/class/dmi/id/bios_version ...`, one `PATH:VALUE` a line."""
    found = dict(_DMI.findall(record.stdout))
    if "bios_version" not in found:
        why = record.stderr.strip() or "no bios_version among the lines"
        return unread(record, why)
    return Bios(version=found["bios_version"], product=found.get("product_name", ""))


def parse_docker(record: Record) -> Docker | Unread:
    """Read `docker info --format '{{json .}}'`; a client without a daemon prints JSON too, with ServerErrors in it."""
    try:
        answer: Any = json.loads(record.stdout)
        faults = [str(one) for one in answer.get("ServerErrors") or ()]
        found = Docker(
            version=str(answer.get("ServerVersion") or ""),
            driver=str(answer.get("Driver") or ""),
            has_containerd_store=_CONTAINERD in json.dumps(answer.get("DriverStatus")),
            architecture=str(answer.get("Architecture") or ""),
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        why = record.stderr.strip() or "not the JSON of docker info"
        return unread(record, why)
    if faults or not (found.version and found.driver and found.architecture):
        why = "; ".join(faults) or record.stderr.strip() or "docker info names no daemon"
        return unread(record, why)
    return found


PROBES = (
    Probe(
        name="kernel",
        about="running kernel",
        argvs=lambda _: (("uname", "-r"),),
        parse=parse_kernel,
        limit_s=5,
    ),
    Probe(
        name="kernel-arguments",
        about="what the running kernel was started with",
        argvs=lambda _: (("cat", "/proc/cmdline"),),
        parse=parse_kernel_arguments,
        limit_s=5,
    ),
    Probe(
        name="bios",
        about="version of the BIOS, and whose machine it is",
        argvs=lambda _: (
            ("grep", "-H", ".", "/sys/class/dmi/id/bios_version", "/sys/class/dmi/id/product_name"),
        ),
        parse=parse_bios,
        limit_s=5,
    ),
    Probe(
        name="docker",
        about="version, image store and architecture of the docker daemon",
        argvs=lambda _: (("docker", "info", "--format", "{{json .}}"),),
        parse=parse_docker,
        limit_s=10,
    ),
)
