"""The doorway through which nodes are watched: one command on every node at once, over kept connections (Fabric).

For what is asked often: is the rank alive, what does its log say. Changes go through Ansible.
"""

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from sparkctl.line import Line, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one node said to one command; `rc` is None when the node did not answer, `stderr` then says why."""

    node: str
    rc: int | None
    stdout: str
    stderr: str


class Shell:
    """Kept connections to the nodes of one line; use as a context manager."""

    def __init__(self, line: Line, *, limit_s: float = 15.0) -> None:
        self._line = line
        self._limit_s = limit_s
        self._connections: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def run(self, argv: Sequence[str]) -> tuple[Said, ...]:
        """Run a command on every node of the line at once; answers come in rank order."""
        return self.run_each({node.name: argv for node in self._line.nodes})

    def run_each(self, commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        """Run each node's own command, all at once; nodes without one are left alone."""
        nodes = [node for node in self._line.nodes if node.name in commands]
        with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
            return tuple(pool.map(lambda node: self._one(node, commands[node.name]), nodes))

    def _one(self, node: Node, argv: Sequence[str]) -> Said:
        import paramiko  # noqa: PLC0415  # 0.2 s that a plan must not pay
        from invoke.exceptions import CommandTimedOut  # noqa: PLC0415

        try:
            ran = self._connection(node).run(
                shlex.join(argv), hide=True, warn=True, in_stream=False, timeout=self._limit_s
            )
        except CommandTimedOut:
            return Said(
                node=node.name, rc=None, stdout="", stderr=f"no answer within {self._limit_s:g} s: timed out"
            )
        except (OSError, EOFError, paramiko.SSHException) as fault:
            stale = self._connections.pop(node.name, None)
            if stale is not None:
                stale.close()
            return Said(node=node.name, rc=None, stdout="", stderr=f"{type(fault).__name__}: {fault}")
        return Said(node=node.name, rc=ran.return_code, stdout=ran.stdout, stderr=ran.stderr)

    def _connection(self, node: Node) -> Any:
        if node.name not in self._connections:
            self._connections[node.name] = self._open(node)
        return self._connections[node.name]

    def _open(self, node: Node) -> Any:
        import fabric  # noqa: PLC0415  # 0.2 s that a plan must not pay
        import paramiko  # noqa: PLC0415

        connection = fabric.Connection(
            node.host,
            user=node.user,
            port=node.port,
            connect_timeout=10,
            connect_kwargs={"key_filename": node.key_file} if node.key_file else {},
        )
        # Fabric's own default accepts any key it has not seen.
        connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        if self._line.known_hosts:
            connection.client.load_host_keys(self._line.known_hosts)
        else:
            connection.client.load_system_host_keys()
        return connection
