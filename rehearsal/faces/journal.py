"""journalctl of a practice node: the few lines of a quiet boot, and what was noted on the node since."""

import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rehearsal.node import Node, read, read_json, write_json

_NOTES = "journal.json"
_KERNEL = "kernel"
_LINES = {"-n", "--lines"}
_SINCE = {"-S", "--since"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", re.ASCII)
_EPOCH = re.compile(r"@\d{1,12}", re.ASCII)
_BARE = {"-b", "--boot", "--no-pager", "-q", "--quiet", "--no-hostname", "-a", "--all", "-e"}


class Note(NamedTuple):
    """One entry."""

    at: float
    """Seconds of the epoch."""
    source: str
    """Who wrote it, with its pid where it has one: `earlyoom[912]`."""
    text: str


def note(root: Path, *entries: Note) -> None:
    """Add entries to a node's journal; only one process of a node writes at a time."""
    write_json(root / _NOTES, [*_noted(root), *entries])


def _noted(root: Path) -> list[Note]:
    path = root / _NOTES
    return [Note(*one) for one in read_json(path)] if path.is_file() else []


def _quiet(node: Node) -> list[Note]:
    """Return what every boot notes, harmless all of it; the mlx5 remark stands in healthy captures too."""
    up = (node.root / "state.json").stat().st_mtime
    return [
        Note(up - 60, _KERNEL, f"Linux version {node.traits.kernel} (buildd@bos03-arm64-052) (aarch64-linux-gnu-gcc)"),
        Note(up - 58, _KERNEL, f"mlx5_core 0000:01:00.0: firmware version: {node.traits.firmware}"),
        Note(up - 58, _KERNEL, "mlx5_core 0000:01:00.0: mlx5_pcie_event:299: Detected insufficient power on the PCIe slot (27W)."),
        Note(up - 57, _KERNEL, f"NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  {node.traits.driver}  Release Build"),
        Note(up - 52, "systemd[1]", "Reached target multi-user.target - Multi-User System."),
        Note(up - 51, "dockerd[1187]", 'time="now" level=info msg="API listen on /run/docker.sock"'),
    ]  # fmt: skip


def answer(root: Path, _name: str, arguments: list[str]) -> int:
    """Answer journalctl of this boot; `-k` leaves the kernel's own lines, `--since` what came from a moment on."""
    wanted, most, since = "", "", "@0"
    rest = list(arguments)
    while rest:
        one, equals, value = rest.pop(0).partition("=")
        if one in _LINES and (equals or rest):
            most = value if equals else rest.pop(0)
        elif one in _SINCE and (equals or rest):
            since = value if equals else rest.pop(0)
        elif one[:2] == "-n" and one[2:].isdigit():
            most = one[2:]
        elif one in {"-k", "--dmesg"}:
            wanted = _KERNEL
        elif one not in _BARE:
            return _refused(one)
    if most and not most.isdigit():
        sys.stderr.write(f"Failed to parse lines '{most}': Invalid argument\n")
        return 1
    from_s = _seconds(since)
    if from_s is None:
        sys.stderr.write(f"Failed to parse timestamp: {since}\n")
        return 1
    node = read(root)
    entries = [
        one for one in (*_quiet(node), *_noted(root)) if wanted in {"", one.source} and one.at >= from_s
    ]
    shown = entries[len(entries) - min(int(most), len(entries)) :] if most else entries
    sys.stdout.write("".join(_line(node, one) for one in shown) or "-- No entries --\n")
    return 0


def _seconds(moment: str) -> float | None:
    """Read a moment as seconds of the epoch: two of the many forms that systemd takes, None for any other text."""
    if _EPOCH.fullmatch(moment):
        return float(moment[1:])
    if not _TIME.fullmatch(moment):
        return None
    try:
        return datetime.strptime(moment, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _refused(option: str) -> int:
    if option.startswith("--"):
        sys.stderr.write(f"journalctl: unrecognized option '{option}'\n")
    elif option.startswith("-"):
        sys.stderr.write(f"journalctl: invalid option -- '{option[1:2]}'\n")
    else:
        sys.stderr.write(f"Failed to add match '{option}': Invalid argument\n")
    return 1


def _line(node: Node, one: Note) -> str:
    return f"{time.strftime('%b %d %H:%M:%S', time.localtime(one.at))} {node.name} {one.source}: {one.text}\n"
