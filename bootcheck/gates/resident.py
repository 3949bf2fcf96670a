"""Residents: who holds memory on a node, for the hint of a gate that finds too little. Pure."""

from bootcheck.facts import Unread
from bootcheck.gates.gate import View
from bootcheck.probes.gpu import Processes
from bootcheck.probes.processes import ProcessTable
from sparkctl.units import GIB, gib

_MOST = 3
_LEAST = GIB // 2  # below this a process is not why memory is short


def residents(view: View) -> str:
    """Return the largest holders of memory in brackets with a space before them; empty when none can be told."""
    told = "; ".join(part for part in (_on_host(view), _on_gpu(view)) if part)
    return f" ({told})" if told else ""


def _on_host(view: View) -> str:
    table = view.facts.one(ProcessTable)
    if isinstance(table, Unread):
        return ""
    largest = sorted(table.running, key=lambda one: -one.memory)[:_MOST]
    return ", ".join(f"{one.name} pid {one.pid} {gib(one.memory)}" for one in largest if one.memory >= _LEAST)


def _on_gpu(view: View) -> str:
    """A process whose memory the driver does not tell is named too: unknown is not zero."""
    processes = view.facts.one(Processes)
    if isinstance(processes, Unread):
        return ""
    largest = sorted(processes.running, key=lambda one: (one.memory is None, -(one.memory or 0)))[:_MOST]
    shown = ((one, "? GiB" if one.memory is None else gib(one.memory)) for one in largest)
    return ", ".join(f"{one.name} pid {one.pid} {size} on the GPU" for one, size in shown)
