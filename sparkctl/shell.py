"""The doorway through which nodes are watched: one command on every node at once, over kept connections (Fabric).

For what is asked often (is the rank alive, what does its log say) and for what is followed (memory, a log, an end).
Changes go through Ansible; what cannot wait for it (stop every rank at once) comes through here too.
"""

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from sparkctl.following import Following, Source, Take
from sparkctl.line import Line, Node

Command = Sequence[str] | Callable[[], Sequence[str]]
"""A command that is followed, or what makes it anew each time that it is started."""

_CONNECT_S = 10.0
"""For each step of getting in: TCP, banner, log-in, channel. paramiko would wait up to an hour for a channel."""

_END_S = 1.0

_UNTIL_HANG_UP = """
exec 3<&0
"$@" </dev/null & child=$!
{ read -r _ <&3; kill "$child"; } 2>/dev/null & waiter=$!
wait "$child"; code=$?
kill "$waiter" 2>/dev/null
exit "$code"
"""
"""Runs a command that ends when its caller goes away: sshd closes the command's input then and does no more, so a
`docker wait` would stay on the node for as long as its container runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one node said to one command; `rc` is None when the node did not answer, `stderr` then says why."""

    node: str
    rc: int | None
    stdout: str
    stderr: str


class Shell:
    """Kept connections to the nodes of one line; use as a context manager. May be used from several threads."""

    def __init__(self, line: Line, *, limit_s: float = 15.0) -> None:
        self._line = line
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._opening = {node.name: threading.Lock() for node in line.nodes}
        self._connections: dict[str, Any] = {}
        self._followed: list[Following] = []

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The line's nodes, in rank order."""
        return self._line.nodes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for following in self._followed:
            following.close()
        dropped = [self._drop(name) for name in tuple(self._connections)]
        for transport in filter(None, dropped):
            # Its thread ends within a tenth of a second; paramiko does not wait for it.
            transport.join(_END_S)

    def run(self, argv: Sequence[str]) -> tuple[Said, ...]:
        """Run a command on every node of the line at once; answers come in rank order."""
        return self.run_each({node.name: argv for node in self._line.nodes})

    def run_each(self, commands: Mapping[str, Sequence[str]]) -> tuple[Said, ...]:
        """Run each node's own command, all at once; nodes without one are left alone."""
        nodes = [node for node in self._line.nodes if node.name in commands]
        with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
            return tuple(pool.map(lambda node: self._one(node, commands[node.name]), nodes))

    def follow(self, commands: Mapping[str, Command], take: Take) -> Following:
        """Start each node's own long-running command, all at once, and hand every line of both outputs to `take`.

        One that is resumed may be another command than before: what makes it is asked at every start. Comes back at once. The commands end on their nodes when the following is closed or this process dies.
        """
        sources = (
            Source(
                node=node.name,
                start=partial(self._start, node, commands[node.name]),
                drop=partial(self._drop, node.name),
            )
            for node in self._line.nodes
            if node.name in commands
        )
        following = Following(sources, take)
        self._followed.append(following)
        return following

    def _one(self, node: Node, argv: Sequence[str]) -> Said:
        import paramiko  # noqa: PLC0415  # 0.2 s that a plan must not pay
        from invoke.exceptions import CommandTimedOut, ThreadException  # noqa: PLC0415

        late = f"no answer within {self._limit_s:g} s: timed out"
        try:
            connection = self._connection(node)
            began = time.monotonic()
            with self._bounded(node, self._limit_s + _CONNECT_S):
                ran = connection.run(
                    shlex.join(argv), hide=True, warn=True, in_stream=False, timeout=self._limit_s
                )
        except CommandTimedOut:
            return Said(node=node.name, rc=None, stdout="", stderr=late)
        except ThreadException as fault:
            self._drop(node.name)
            why = f"{type(fault).__name__}: {', '.join(repr(one.value) for one in fault.exceptions)}"
            return Said(node=node.name, rc=None, stdout="", stderr=why)
        except (OSError, EOFError, paramiko.SSHException) as fault:
            self._drop(node.name)
            return Said(node=node.name, rc=None, stdout="", stderr=f"{type(fault).__name__}: {fault}")
        if ran.return_code < 0:
            # Closed without an exit code: by the time limit, which Fabric does not always tell, or by the node.
            lost = (
                late if time.monotonic() - began >= self._limit_s else "the connection was closed meanwhile"
            )
            return Said(node=node.name, rc=None, stdout="", stderr=lost)
        return Said(node=node.name, rc=ran.return_code, stdout=ran.stdout, stderr=ran.stderr)

    def _start(self, node: Node, command: Command) -> Any:
        """Start a command and return its open channel, both outputs in one."""
        argv = command() if callable(command) else command
        connection = self._connection(node)
        with self._bounded(node, 2 * _CONNECT_S):
            channel = connection.create_session()
            channel.set_combine_stderr(True)
            channel.exec_command(shlex.join(("sh", "-c", _UNTIL_HANG_UP, "sh", *argv)))
        return channel

    def _drop(self, name: str) -> Any:
        """Close the connection to a node, also one that is just being opened; the next command opens a new one."""
        with self._lock:
            connection = self._connections.pop(name, None)
        if connection is None:
            return None
        transport = connection.client.get_transport()
        if connection.is_connected:
            connection.close()
        elif transport is not None:
            # Fabric's own close leaves a connection alone that has not logged in.
            transport.close()
        return transport

    @contextmanager
    def _bounded(self, node: Node, seconds: float) -> Iterator[None]:
        """Close the connection when the block takes longer: paramiko's wait for an answer to a request has no limit."""
        timer = threading.Timer(seconds, self._drop, (node.name,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _connection(self, node: Node) -> Any:
        """Return the open connection to a node."""
        with self._opening[node.name], _legible(self._line, node):
            with self._lock:
                if node.name not in self._connections:
                    self._connections[node.name] = self._made(node)
                connection = self._connections[node.name]
            connection.open()
            with self._lock:
                kept = self._connections.get(node.name) is connection
            if not kept:
                connection.close()
                raise EOFError("given up while the connection was opened")
            return connection

    def _made(self, node: Node) -> Any:
        import fabric  # noqa: PLC0415  # 0.2 s that a plan must not pay
        import paramiko  # noqa: PLC0415

        limits = dict.fromkeys(("banner_timeout", "auth_timeout", "channel_timeout"), _CONNECT_S)
        connection = fabric.Connection(
            node.host,
            user=node.user,
            port=node.port,
            connect_timeout=_CONNECT_S,
            connect_kwargs=limits | ({"key_filename": node.key_file} if node.key_file else {}),
        )
        # Fabric's own default accepts any key it has not seen.
        connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        if self._line.known_hosts:
            connection.client.load_host_keys(self._line.known_hosts)
        else:
            connection.client.load_system_host_keys()
        return connection


@contextmanager
def _legible(line: Line, node: Node) -> Iterator[None]:
    """Tell of a damaged line or key as of any other refusal: paramiko lets what its parsers raise through."""
    import paramiko  # noqa: PLC0415
    from paramiko.hostkeys import InvalidHostKey  # noqa: PLC0415

    try:
        yield
    except (InvalidHostKey, ValueError, AssertionError) as fault:
        # An InvalidHostKey holds the whole line; what is wrong with it comes last.
        why = f"{type(fault).__name__}: {fault.args[-1] if fault.args else 'no reason given'}"
        files = " or ".join((line.known_hosts or "~/.ssh/known_hosts", *filter(None, (node.key_file,))))
        raise paramiko.SSHException(f"a line or key of {files} cannot be read: {why}") from fault
