"""Applying: which running settings `boot --apply` changes, and when; what the nodes then tell of it. Pure.

Only what runs is changed, until the next reboot: never netplan, grub or any file. A reserve of free memory comes after the line
is ready: raised between the memory gate and the start it makes vLLM's own start check fail (a 4 GiB reserve lowered MemAvailable by
6.2 GiB, tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark#19, reported).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sparkctl.line import Line

_AFTER_READY = frozenset({"vm.min_free_kbytes", "vm.watermark_scale_factor"})
"""Settings that take from MemAvailable."""

CURES = frozenset({"mtu", "jumbo-ping", "rdma"})
"""Gates whose failure applying may cure, so that a boot may go on to settle."""


def before(line: Line, mtu: int) -> dict[str, object]:
    """Return what settle.yml changes before the nodes are judged again; `mtu` in bytes."""
    settings = {name: value for name, value in line.sysctls.items() if name not in _AFTER_READY}
    names = [node.name for node in line.nodes]
    return {
        "apply_mtu": mtu,
        "apply_links": {node.name: [rail.interface for rail in node.rails] for node in line.nodes},
        "apply_settings": settings,
        "apply_settings_on": names if settings else [],
    }


def after(line: Line) -> dict[str, object] | None:
    """Return what reserve.yml changes once the line is ready; None when there is nothing."""
    settings = {name: value for name, value in line.sysctls.items() if name in _AFTER_READY}
    if not settings:
        return None
    return {"apply_settings": settings, "apply_settings_on": [node.name for node in line.nodes]}


def told(results: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Say what each node changed, one line a change; `results` are nodes with what a task of theirs said."""
    for host, result in results:
        items = result.get("results", ())
        for item in items if isinstance(items, list) else ():
            if isinstance(item, Mapping) and item.get("changed") is True:
                yield f"{host}: {_change(item)}, until its next reboot"


def _change(item: Mapping[str, Any]) -> str:
    noun = f"MTU of {item['interface']}" if "interface" in item else str(item.get("name", "a setting"))
    return f"{noun} {item.get('before', '?')} -> {item.get('after', '?')}"
