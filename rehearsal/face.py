"""Where a node's own commands start: `face.py <node folder> <command> [argument ...]`, run as a bare script."""

import importlib
import signal
import sys
from pathlib import Path

_MODULES = {
    "cat": "system",
    "docker": "docker",
    "hostname": "system",
    "ibv_devinfo": "network",
    "ip": "network",
    "nvidia-smi": "gpu",
    "ping": "network",
    "rank": "rank",
    "sudo": "system",
    "uname": "system",
}


def commands() -> tuple[str, ...]:
    """Return the names that a node's PATH shows."""
    return tuple(name for name in _MODULES if name != "rank")


def main(argv: list[str]) -> int:
    """Answer one command; a fault of ours is one line on stderr and 1, as a tool of the node would say it."""
    root, name, *arguments = argv
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    package = "engine" if name == "rank" else "faces"
    try:
        module = importlib.import_module(f"rehearsal.{package}.{_MODULES[name]}")
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
