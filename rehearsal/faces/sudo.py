"""sudo of a practice node: the node's own commands, and the few rules that its owner gave without a password."""

import os
import re
import sys
import time
from pathlib import Path

from rehearsal.node import Node, change, keep_page_cache, read

_SLOW_S = (
    15.0  # of our seconds, as are the limits that it is to break: Ansible gives a prompt 12 s by default
)
_DROP = re.compile(r"echo\s+([123])\s*>\s*/proc/sys/vm/drop_caches")
_COMPACT = re.compile(r"echo\s+1\s*>\s*/proc/sys/vm/compact_memory")
_SETTLING_S = 1.0  # of the line's seconds


def answer(root: Path, _name: str, arguments: list[str]) -> int:
    """Run a face, or settle the simulated memory; anything else is refused as sudo refuses without a password.

    Note: passing other commands through would run them as whoever raised the cluster, root perhaps.
    """
    node = read(root)
    command = [one for one in arguments if one not in {"-n", "--non-interactive", "-E", "-H", "--"}]
    if node.sudo_fault == "slow":
        time.sleep(_SLOW_S)
    if not command:
        sys.stderr.write("usage: sudo -h | -K | -k | -V\n")
        return 1
    if node.sudo_fault != "password":
        if _is_shell(command) and _settle(node, command[2]):
            return 0
        if command == ["true"]:
            return 0
        if (root / "bin" / command[0]).is_file():
            _become_root(root, command)
    sys.stderr.write("sudo: a password is required\n")
    return 1


def _is_shell(command: list[str]) -> bool:
    return len(command) == 3 and command[0] in {"sh", "/bin/sh", "bash"} and command[1] == "-c"


def _settle(node: Node, script: str) -> bool:
    """Drop the page cache and compact memory as the script says; False when it says neither."""
    dropped, compacted = _DROP.search(script), _COMPACT.search(script)
    if dropped and dropped[1] != "2":  # 2 frees slab objects alone
        keep_page_cache(node.root, 0)
    if compacted:
        change(node.root, lambda now: now._replace(compacted=True))
    if dropped or compacted:
        time.sleep(_SETTLING_S / node.pace)
    return bool(dropped or compacted)


def _become_root(root: Path, command: list[str]) -> None:
    """Run one of the node's own commands; like the real sudo it says in the environment that it is root's doing."""
    tool = str(root / "bin" / command[0])
    os.execve(tool, [tool, *command[1:]], {**os.environ, "SUDO_UID": "1000", "SUDO_USER": "spark"})  # noqa: S606 - as above
