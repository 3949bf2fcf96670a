"""Ownership: which container a process of a node belongs to. Pure.

Every process of a container descends from the container's first one, whatever it calls itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from bootcheck.facts import Unread
from bootcheck.gates.gate import View
from bootcheck.probes.container import Container, Containers
from bootcheck.probes.processes import ProcessTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Containers that live on a node, and each process' parent; `is_whole` is false where some parents are not known."""

    containers: Containers
    parents: dict[int, int]
    is_whole: bool

    @classmethod
    def of(cls, view: View) -> Self | None:
        """Return it for a node; None where its containers could not be read. Processes that could not be are no fault."""
        containers, table = view.facts.one(Containers), view.facts.one(ProcessTable)
        if isinstance(containers, Unread):
            return None
        running = () if isinstance(table, Unread) else table.running
        is_whole = not isinstance(table, Unread) and not table.unread
        parents = {one.pid: one.parent for one in running}
        return cls(containers=containers, parents=parents, is_whole=is_whole)

    @property
    def ranks(self) -> tuple[Container, ...]:
        """Ranks of this line that live."""
        return tuple(one for one in self.containers.found if one.is_alive)

    def container(self, pid: int) -> Container | None:
        """Return the container that a process runs in; None when it runs in none that can be told."""
        by_pid = {one.pid: one for one in self.containers.every if one.pid and one.is_alive}
        return next((by_pid[each] for each in self._ancestry(pid) if each in by_pid), None)

    def is_ours(self, pid: int | None) -> bool:
        """Whether a process is a living rank's of this line. Where ps or ss does not tell, a living rank is taken for it."""
        if not self.ranks:
            return False
        if pid is None or not any(rank.pid in self.parents for rank in self.ranks):
            return True
        inside = self.container(pid)
        return inside in self.ranks or (inside is None and not self.is_whole)

    def _ancestry(self, pid: int) -> Iterator[int]:
        """Give the process, its parent and so on. A table that was read while it changed may hold a ring."""
        seen: set[int] = set()
        while pid and pid not in seen:
            seen.add(pid)
            yield pid
            pid = self.parents.get(pid, 0)
