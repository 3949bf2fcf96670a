"""Software of a node: the running kernel. The driver comes with the GPU probe."""

import re

from bootcheck.facts import Kernel, Record, Unread

_RELEASE = re.compile(r"^\d+\.\d+\S*$")


def parse_kernel(record: Record) -> Kernel | Unread:
    """Read `uname -r`."""
    release = record.stdout.strip()
    if not _RELEASE.match(release):
        return Unread(probe=record.probe, why="not a kernel release", seen=record.stdout)
    return Kernel(release=release)
