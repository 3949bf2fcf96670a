"""Engines: processes of vLLM that the GPU still lists although they are gone. Pure."""

from collections.abc import Iterable

from bootcheck.facts import NodeFacts, Unread
from bootcheck.probes.gpu import Process, Processes
from bootcheck.probes.processes import ProcessTable, Running, is_engine

WAIT = "wait some seconds and check again; a GPU that is held for minutes by nothing needs a reboot"


def ending(facts: NodeFacts) -> tuple[Process, ...]:
    """Return engine processes that the GPU lists and ps does not: gone, and their memory not yet given back.

    Where a table, or a row of ps, could not be read nobody can be told to be gone.
    """
    table, processes = facts.one(ProcessTable), facts.one(Processes)
    if isinstance(table, Unread) or isinstance(processes, Unread) or table.unread:
        return ()
    known = {one.pid for one in table.running if not one.is_ending}
    return tuple(one for one in processes.running if is_engine(one.name) and one.pid not in known)


def named(processes: Iterable[Process | Running]) -> str:
    """Return them in words."""
    return ", ".join(f"{one.name} (pid {one.pid})" for one in processes)
