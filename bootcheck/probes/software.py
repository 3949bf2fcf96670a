"""Software of a node: the running kernel. The driver comes with the GPU probe."""

import re
from dataclasses import dataclass
from typing import ClassVar

from bootcheck.facts import Record, Unread
from bootcheck.probes.probe import Probe

_RELEASE = re.compile(r"^\d+\.\d+\S*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The running kernel's release."""

    probe: ClassVar[str] = "kernel"

    release: str


def parse_kernel(record: Record) -> Kernel | Unread:
    """Read `uname -r`."""
    release = record.stdout.strip()
    if not _RELEASE.match(release):
        return Unread(probe=record.probe, why="not a kernel release", seen=record.stdout)
    return Kernel(release=release)


PROBES = (
    Probe(
        name="kernel",
        about="running kernel",
        argvs=lambda _: (("uname", "-r"),),
        parse=parse_kernel,
        limit_s=5,
    ),
)
