"""sysctl and getconf of a practice node."""

import os
import sys
from pathlib import Path

from rehearsal.faces import real
from rehearsal.node import Node, change, changes, read

MIN_FREE = "vm.min_free_kbytes"
PAGE_KIB = 4

_CONSTANTS = {"PAGESIZE": PAGE_KIB * 1024, "PAGE_SIZE": PAGE_KIB * 1024, "_NPROCESSORS_ONLN": 20}

# Ubuntu's own values.
_USUAL = {
    "kernel.numa_balancing": "0",
    "net.core.rmem_max": "212992",
    "net.core.wmem_max": "212992",
    "net.core.somaxconn": "4096",
    "net.ipv4.ip_local_port_range": "32768\t60999",
    "net.ipv4.tcp_rmem": "4096\t131072\t33554432",
    "net.ipv4.tcp_wmem": "4096\t16384\t4194304",
    "vm.compaction_proactiveness": "20",
    "vm.dirty_background_ratio": "10",
    "vm.dirty_ratio": "20",
    "vm.max_map_count": "1048576",
    "vm.overcommit_memory": "0",
    "vm.swappiness": "60",
    "vm.vfs_cache_pressure": "100",
    "vm.watermark_scale_factor": "10",
}
_EACH_INTERFACE = {"arp_ignore": "0", "arp_announce": "0", "arp_filter": "0", "rp_filter": "2"}


def answer(root: Path, name: str, arguments: list[str]) -> int:
    """Answer one of the commands."""
    return _getconf(arguments) if name == "getconf" else _sysctl(read(root), arguments)


def setting(node: Node, name: str) -> str:
    """Return a kernel setting.

    Raises:
        LookupError: there is none of that name.

    """
    changed = changes(node.root).sysctls
    if name in changed:
        return changed[name]
    if name == MIN_FREE:
        return str(node.traits.min_free_kib)
    if name.startswith("net.ipv4.conf."):
        return _EACH_INTERFACE[name.rpartition(".")[2]]
    return _USUAL[name]


def _sysctl(node: Node, arguments: list[str]) -> int:
    options = {one for one in arguments if one.startswith("-")}
    told = [one for one in arguments if not one.startswith("-")]
    if wrong := sorted(options - {"-n", "-w"}):
        sys.stderr.write(f"sysctl: invalid option -- '{wrong[0].lstrip('-')[:1]}'\n")
        return 1
    if not told:
        sys.stderr.write("sysctl: no variables specified\nTry `sysctl --help' for more information.\n")
        return 1
    return max(_one(node, *one.partition("=")[::2], bare="-n" in options) for one in told)


def _one(node: Node, name: str, value: str, *, bare: bool) -> int:
    """Show a setting, or set it first; only root may."""
    try:
        shown = setting(node, name)
    except LookupError:
        path = f"/proc/sys/{name.replace('.', '/')}"
        sys.stderr.write(f"sysctl: cannot stat {path}: No such file or directory\n")
        return 1
    if value and "SUDO_UID" not in os.environ:
        sys.stderr.write(f"sysctl: permission denied on key '{name}'\n")
        return 1
    if value:
        change(node.root, lambda now: now._replace(sysctls={**now.sysctls, name: value}))
        shown = value
    sys.stdout.write(f"{shown}\n" if bare else f"{name} = {shown}\n")
    return 0


def _getconf(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in _CONSTANTS:
        real.run("getconf", arguments)
    sys.stdout.write(f"{_CONSTANTS[arguments[0]]}\n")
    return 0
