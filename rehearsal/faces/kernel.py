"""The files in which a practice node's kernel tells of itself: /proc and /sys, as far as anybody asks."""

import errno
import os
from collections.abc import Callable

from rehearsal.faces import system
from rehearsal.faces.settings import MIN_FREE, setting
from rehearsal.node import Node, Rail

MANAGEMENT = "enP7s7"
_GIDS = 256  # entries of a port's table, as mlx5 has them
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
_CLASSES = ("/sys/class/infiniband/", "/sys/class/net/", "/sys/class/dmi/id/")


Files = dict[str, str | None]
"""Content by name; None where the kernel answers a read with `Invalid argument`."""


def is_own(path: str) -> bool:
    """Whether a file is the node's own and not the machine's."""
    return path in _PROC or f"{path.rstrip('/')}/".startswith(_CLASSES)


def files(node: Node) -> Files:
    """Return every file of the node's own under /sys, by path."""
    rails = node.self.rails
    folders: dict[str, Files] = {
        "/sys/class/dmi/id": _dmi(node),
        f"/sys/class/net/{MANAGEMENT}": {"mtu": "1500", "operstate": "up", "speed": "10000"},
        **{f"/sys/class/net/{rail.interface}": _net(rail) for rail in rails},
        **{
            f"/sys/class/infiniband/{rail.hca}/ports/1/{kind}": table
            for at, rail in enumerate(rails)
            for kind, table in _gids(node, at, rail).items()
        },
    }
    return {f"{folder}/{name}": told for folder, table in folders.items() for name, told in table.items()}


def text(node: Node, there: Files, path: str) -> str:
    """Return what a file holds; `there` are the node's files under /sys.

    Raises:
        OSError: there is no such file, or the kernel does not let it be read.

    """
    if path in _PROC:
        return _PROC[path](node)
    if path not in there:
        raise _fault(errno.EISDIR if below(there, path) else errno.ENOENT, path)
    told = there[path]
    if told is None:
        raise _fault(errno.EINVAL, path)
    return f"{told}\n"


def below(there: Files, folder: str) -> tuple[str, ...]:
    """Return every file under a folder."""
    beginning = f"{folder.rstrip('/')}/"
    return tuple(path for path in there if path.startswith(beginning))


def _fault(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


_PROC: dict[str, Callable[[Node], str]] = {
    "/proc/buddyinfo": system.buddyinfo,
    "/proc/cmdline": system.cmdline,
    "/proc/meminfo": system.meminfo,
    "/proc/sys/vm/min_free_kbytes": lambda node: f"{setting(node, MIN_FREE)}\n",
}


def _dmi(node: Node) -> Files:
    return {
        "bios_date": "06/18/2026",
        "bios_vendor": "NVIDIA",
        "bios_version": node.traits.bios,
        "product_name": "NVIDIA_DGX_Spark",
        "sys_vendor": "NVIDIA",
    }


def _net(rail: Rail) -> Files:
    port = rail.interface.rpartition("np")[2]
    return {
        "carrier": str(int(rail.is_up)),
        "mtu": str(rail.mtu),
        "operstate": "up" if rail.is_up else "down",
        "phys_port_name": f"p{port}" if port.isdigit() else None,
        "speed": str(rail.speed_mbit) if rail.is_up else "-1",
    }


def _gids(node: Node, at: int, rail: Rail) -> dict[str, Files]:
    """Return a port's table: each address has an entry for RoCE v1 and one for v2; the IPv4 one stands where the trait says."""
    link_local = f"fe80:0000:0000:0000:0000:00ff:fe00:{16 * node.rank + at + 1:04x}"
    a, b, c, d = map(int, rail.address.split("."))
    mapped = f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"
    before = rail.gid_index // 2 if rail.gid_index >= 0 else 1
    addresses = [link_local, *(f"fd00:0000:0000:{extra:04x}:0000:0000:0000:0001" for extra in range(1, 8))][
        :before
    ]
    if rail.gid_index >= 0:
        addresses.append(mapped)
    if not before:
        addresses.append(link_local)
    entries = [one for address in addresses for one in (address, address)]
    kinds = ["IB/RoCE v1", "RoCE v2"] * len(addresses)
    numbers = [str(index) for index in range(_GIDS)]
    empty = _GIDS - len(entries)
    return {
        "gids": dict(zip(numbers, [*entries, *[_NO_GID] * empty], strict=True)),
        "gid_attrs/types": dict(zip(numbers, [*kinds, *[None] * empty], strict=True)),
        "gid_attrs/ndevs": dict(
            zip(numbers, [*[rail.interface] * len(entries), *[None] * empty], strict=True)
        ),
    }
