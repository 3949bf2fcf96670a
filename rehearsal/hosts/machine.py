"""The machine that carries the hosts: whether it can, and its tools, run as root within a time limit."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from sparkctl.errors import Unclear

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

_LIMIT_S = 20.0

# Each tool and the Debian package that brings it.
_TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "ping": "iputils-ping",
    "ps": "procps",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}

# All that the hosts ask of the kernel, in a namespace that ends with the command.
_TRIAL = (
    "mount -t sysfs -o ro sysfs /sys && ip link add trial type bridge && ip link add one type veth peer name two && "
    "ip link set one master trial && tc qdisc replace dev one root tbf rate 1mbit burst 64kb latency 50ms"
)


def obstacle() -> str:
    """Say why this machine cannot carry hosts; empty when it can."""
    if not sys.platform.startswith("linux"):
        return f"network namespaces are Linux's own; this is {sys.platform}"
    if os.geteuid() != 0:
        return "not root: namespaces, bridges and a second sshd need it"
    missing = [name for name in _TOOLS if not shutil.which(name, path=PATH)]
    if missing:
        packages = " ".join(sorted({_TOOLS[name] for name in missing}))
        return f"{', '.join(missing)} not found; install the Debian packages: {packages}"
    ran = _run(("unshare", "--net", "--pid", "--fork", "--mount", "--uts", "--ipc", "sh", "-c", _TRIAL), "")
    return f"the kernel refuses: {ran.stderr.strip()}" if ran.returncode else ""


def command(argv: Sequence[str], *, said: str = "") -> str:
    """Run a tool with `said` on its stdin and return its stdout.

    Raises:
        Unclear: it ended with another code than 0, or overran its time.

    """
    ran = _run(argv, said)
    if ran.returncode:
        raise Unclear(
            f"{' '.join(argv)} ended with {ran.returncode}: {ran.stderr.strip()}",
            hint="read the tool's own words above; the hosts are gone with the rack",
        )
    return ran.stdout


def _run(argv: Sequence[str], said: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            argv,
            input=said,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
            env={"PATH": PATH, "LANG": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired as late:
        raise Unclear(
            f"{' '.join(argv)} gave no answer within {_LIMIT_S:g} s", hint="see whether the machine swaps"
        ) from late
