"""Where a node's own commands start: `face.py <node folder> <command> [argument ...]`, run as a bare script."""

import importlib
import signal
import sys
from pathlib import Path

MODULES = {
    "cat": "files",
    "contained": "contained",
    "df": "disk",
    "docker": "docker",
    "find": "disk",
    "findmnt": "disk",
    "getconf": "settings",
    "grep": "files",
    "hostname": "system",
    "ibdev2netdev": "adapters",
    "ibv_devinfo": "adapters",
    "ip": "network",
    "journalctl": "journal",
    "ls": "files",
    "nmcli": "adapters",
    "nvidia-smi": "gpu",
    "ping": "network",
    "ps": "tasks",
    "python3": "script",
    "rank": "rank",
    "sha256sum": "disk",
    "ss": "tasks",
    "stat": "disk",
    "sudo": "sudo",
    "sysctl": "settings",
    "uname": "system",
}
"""The module that answers each command."""

_KERNEL = ("/proc/meminfo", "/proc/buddyinfo", "/proc/cmdline", "/proc/sys/vm/", "/sys/class/")
_DISK = ("/srv",)

SEEN_IN = {
    "cat": _KERNEL,
    "df": ("/var/lib/docker",),
    "find": _DISK,
    "grep": ("/sys/class/",),
    "ls": ("/dev/shm",),  # noqa: S108 - a name to look for, not a file of ours
    "python3": ("sparkctl-transfer", "sparkctl-hash"),
    "sha256sum": _DISK,
    "stat": _DISK,
}
"""Commands of which a node answers only what speaks of these; all else is the machine's own tool, without a detour."""


def commands() -> tuple[str, ...]:
    """Return the names that a node's PATH shows."""
    return tuple(name for name in MODULES if name not in {"contained", "rank"})


def main(argv: list[str]) -> int:
    """Answer one command; a fault of ours is one line on stderr and 1, as a tool of the node would say it."""
    root, name, *arguments = argv
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    package = "engine" if name == "rank" else "faces"
    try:
        module = importlib.import_module(f"rehearsal.{package}.{MODULES[name]}")
        status: int = module.answer(Path(root), name, arguments)
    except (OSError, ValueError, LookupError) as fault:
        sys.stderr.write(f"{name}: {fault}\n")
        status = 1
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    # The script's own folder must not shadow the standard library; the package is found last.
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    sys.exit(main(sys.argv[1:]))
