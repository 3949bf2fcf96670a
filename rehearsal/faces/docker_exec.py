"""docker exec of a practice node: a file's hash as a rank sees it, through its binds; anything at all where a real engine runs."""

import subprocess
import sys
from pathlib import Path

from rehearsal.containers import find
from rehearsal.faces import disk
from rehearsal.faces.docker_view import absent, too_few
from rehearsal.node import Node

_NO_COMMAND = 127


def answer(node: Node, arguments: list[str]) -> int:
    """Answer docker exec NAME COMMAND [ARGUMENT ...]."""
    if len(arguments) < 2:
        return too_few("exec")
    name, *command = arguments
    container = find(node.root, name)
    process = container.process() if container else None
    if container is None:
        return absent(name)
    if process is None or not container.is_running():
        sys.stderr.write(f"Error response from daemon: container {container.id} is not running\n")
        return 1
    if node.engine:
        return _inside(process.pid, command)
    if command[0] != "sha256sum":
        sys.stderr.write(
            f'OCI runtime exec failed: exec failed: unable to start container process: exec: "{command[0]}": '
            "executable file not found in $PATH\n"
        )
        return _NO_COMMAND
    binds = dict(reversed(bind.split(":")[:2]) for bind in container.host["Binds"])
    paths = [one for one in command[1:] if one != "--"]
    return disk.hashes(node, [(one, binds.get(one, one)) for one in paths])


def _inside(outer: int, command: list[str]) -> int:
    """Run a command in the namespaces and the root of a container's first process, the only child of its unshare."""
    inner = _only_child(_only_child(outer))
    joined = ["nsenter", "--target", str(inner), "--mount", "--pid", "--root", "--wd", "--"]
    return subprocess.run([*joined, *command], check=False).returncode


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()[0])
