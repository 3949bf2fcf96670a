"""The table of all probes, and a record's way to its parser."""

from bootcheck.facts import Record, Unread, unread
from bootcheck.probes import (
    burn,
    collective,
    container,
    fabric,
    files,
    gpu,
    listeners,
    memory,
    model,
    ports,
    processes,
    rdma,
    runtime,
    software,
    transfer,
)
from bootcheck.probes.probe import Probe, was_cut

PROBES: tuple[Probe, ...] = (
    *memory.PROBES,
    *processes.PROBES,
    *gpu.PROBES,
    *burn.PROBES,
    *fabric.PROBES,
    *ports.PROBES,
    *rdma.PROBES,
    *transfer.PROBES,
    *collective.PROBES,
    *software.PROBES,
    *container.PROBES,
    *runtime.PROBES,
    *files.PROBES,
    *model.PROBES,
    *listeners.PROBES,
)


def find(name: str) -> Probe | None:
    """Return the probe of that name."""
    return next((probe for probe in PROBES if probe.name == name), None)


def loading() -> frozenset[str]:
    """Return the names of the probes that load the node or the fabric."""
    return frozenset(probe.name for probe in PROBES if probe.group == "alone")


def lasting() -> frozenset[str]:
    """Return the names of the probes whose answer settling does not change."""
    return frozenset(probe.name for probe in PROBES if not probe.moves)


def requested() -> frozenset[str]:
    """Return the names of the probes that run only on request."""
    return frozenset(probe.name for probe in PROBES if probe.on_request)


def parse(record: Record) -> object:
    """Turn a record into its fact; a command that did not run, ran out of time or lacks its tool is Unread."""
    probe = find(record.probe)
    if probe is None:
        return unread(record, "no probe of this name")
    if record.rc is None or record.rc in {124, 127}:
        why = record.stderr.strip() or "not run"
        return Unread(
            probe=record.probe,
            why=why,
            seen=record.stdout,
            lacks_tool=record.rc == 127,
            is_blind=record.rc is None,
        )
    if was_cut(record.stdout):
        return Unread(
            probe=record.probe, why="longer than what is kept of a text, and cut", seen=record.stdout
        )
    return probe.parse(record)
