"""A container with a real program in it: its own root, mounts, processes and shared memory, and the command line as it stands.

It stands in for a container runtime on hosts that have none: namespaces and binds are the kernel's own; what is missing is an image
(the machine's files are there to read instead) and control groups, so memory limits are not enforced.
"""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from rehearsal import containers
from rehearsal.node import read, write_json

_ENTER = """
set -e
root=$1 shm=$2
shift 2
mount -t tmpfs tmpfs "$root"
# The host's folders are there to read; processes and /tmp are the container's own.
for path in /*; do
    case $path in /proc | /tmp) continue ;; esac
    if [ -L "$path" ]; then cp -P "$path" "$root$path"
    elif [ -d "$path" ]; then mkdir "$root$path" && mount --rbind "$path" "$root$path"
    fi
done
mkdir -p "$root/proc" "$root/tmp"
chmod 1777 "$root/tmp"
mount -t proc proc "$root/proc"
mount -t tmpfs -o "size=$shm" tmpfs "$root/dev/shm"
while [ "$1" != -- ]; do
    source=$1 inside=$2 mode=$3
    shift 3
    if [ -d "$source" ]; then mkdir -p "$root$inside"
    # What is there already is the machine's own file: it must not be emptied.
    else mkdir -p "$(dirname "$root$inside")" && [ -e "$root$inside" ] || : >"$root$inside"
    fi
    mount --bind "$source" "$root$inside"
    [ "$mode" = ro ] && mount -o remount,bind,ro "$root$inside"
done
shift
exec chroot "$root" "$@"
"""


def answer(root: Path, _name: str, arguments: list[str]) -> int:
    """Run a container's program in the foreground until it ends; a signal is passed on to its first process, as docker does."""
    node, container = read(root), containers.read(Path(arguments[0]))
    inside = container.root.parent.parent / "roots" / container.name
    inside.mkdir(parents=True, exist_ok=True)
    program = (container.entrypoint or ("vllm",))[0]
    shm = str(container.host["ShmSize"])
    words = ["sh", "-c", _ENTER, "sh", str(inside), shm, *_binds(container.host), "--"]
    # Whoever kills this process, as docker kill does, takes everything with it.
    alone = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
    child = subprocess.Popen(
        [*alone, *words, program, *container.argv], env=_environment(node.engine, container.env)
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: _pass_on(child.pid, number))
    code = child.wait()
    write_json(container.root / "exit.json", (code if code >= 0 else 128 - code, containers.stamp()))
    return code


def _binds(host: dict[str, Any]) -> list[str]:
    found = []
    for bind in host["Binds"]:
        source, inside, *mode = bind.split(":")
        found += [source, inside, "ro" if "ro" in mode else "rw"]
    return found


def _environment(engine: str, told: tuple[str, ...]) -> dict[str, str]:
    path = f"{engine}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108 - the container's own
    mark = {name: value for name, value in os.environ.items() if name.startswith("SPARKCTL_")}
    return own | mark | dict(one.split("=", 1) for one in told)


def _pass_on(outer: int, number: int) -> None:
    """Send a signal to the container's first process, which unshare has as its only child."""
    children = Path(f"/proc/{outer}/task/{outer}/children").read_text(encoding="utf-8").split()
    for child in children:
        os.kill(int(child), number)
