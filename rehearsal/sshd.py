"""One practice node's SSH server: commands run through /bin/sh with the node's own PATH, home and environment."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import asyncssh

from rehearsal.layout import USER
from rehearsal.node import Node
from rehearsal.processes import MARK

OTHER_USER = "operator"
"""Who is let in instead where the node's hidden state says `other-user`."""

_CHUNK = 65536


class Watch:
    """What the servers have open: the daemon ends when nobody has called for long, and reaps what is not theirs."""

    def __init__(self) -> None:
        self.open = 0
        self.children: set[int] = set()


class _Server(asyncssh.SSHServer):
    def __init__(self, watch: Watch, user: str, keys: tuple[asyncssh.SSHKey, ...]) -> None:
        self._watch = watch
        self._user = user
        self._keys = keys

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        del conn
        self._watch.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._watch.open -= 1

    # The listener's own `authorized_client_keys` would let any user name in; so the keys are judged here, with the name.
    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == self._user and key in self._keys


async def listen(node: Node, keys: Path, watch: Watch) -> asyncssh.SSHAcceptor:
    """Start one node's server on its own management address and a free port."""
    user = OTHER_USER if node.ssh_fault == "other-user" else USER
    known = tuple(asyncssh.read_public_key_list(keys / "authorized_keys"))

    async def handle(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        await _handle(node, process, watch)

    return await asyncssh.listen(
        node.self.management,
        0,
        server_factory=lambda: _Server(watch, user, known),
        server_host_keys=[str(keys / node.name)],
        process_factory=handle,
        encoding=None,
        keepalive_interval=60,
        login_timeout=30,
    )


def _environment(node: Node) -> dict[str, str]:
    return {
        "PATH": f"{node.root / 'bin'}:/usr/bin:/bin",
        "HOME": str(node.root / "home"),
        "TMPDIR": str(node.root / "tmp"),
        "USER": USER,
        "LOGNAME": USER,
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        MARK: node.token,
    }


async def _handle(node: Node, process: "asyncssh.SSHServerProcess[bytes]", watch: Watch) -> None:
    """Run one command to its end and exit with its code."""
    shell = ["/bin/sh"] if process.command is None else ["/bin/sh", "-c", os.fsdecode(process.command)]
    try:
        child = await asyncio.create_subprocess_exec(
            *shell,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=node.root / "home",
            env=_environment(node),
            start_new_session=True,
        )
    except OSError as fault:
        process.stderr.write(f"sh: {fault}\n".encode())
        process.exit(126)
        return
    watch.children.add(child.pid)
    feeding = asyncio.create_task(_feed(process, child))
    watching = asyncio.create_task(_hang_up(process, child))
    # Both outputs are pumped to their end before the exit code is sent: handing the pipes over loses words now and then.
    await asyncio.gather(_pump(child.stdout, process.stdout), _pump(child.stderr, process.stderr))
    code = await child.wait()
    watch.children.discard(child.pid)
    for task in (feeding, watching):
        task.cancel()
    with contextlib.suppress(OSError, asyncssh.Error):
        process.exit(code if code >= 0 else 128 - code)


async def _feed(process: "asyncssh.SSHServerProcess[bytes]", child: asyncio.subprocess.Process) -> None:
    assert child.stdin is not None  # noqa: S101 - it was asked for as a pipe
    while True:
        try:
            chunk = await process.stdin.read(_CHUNK)
        except asyncssh.SignalReceived as told:
            _signal(child, getattr(signal, f"SIG{told.signal}", signal.SIGTERM))
            continue
        except (asyncssh.BreakReceived, asyncssh.TerminalSizeChanged):
            continue
        if not chunk:
            break
        try:
            child.stdin.write(chunk)
            await child.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return
    child.stdin.close()


async def _pump(source: asyncio.StreamReader | None, target: "asyncssh.SSHWriter[bytes]") -> None:
    assert source is not None  # noqa: S101 - it was asked for as a pipe
    lost = False
    while chunk := await source.read(_CHUNK):
        if lost:
            continue  # nobody listens any more; the child must not block on a full pipe
        try:
            target.write(chunk)
            await target.drain()
        except (OSError, asyncssh.Error):
            lost = True


async def _hang_up(process: "asyncssh.SSHServerProcess[bytes]", child: asyncio.subprocess.Process) -> None:
    """End the command when its caller goes away, as a terminal's end would."""
    await process.wait_closed()
    _signal(child, signal.SIGHUP)
    await asyncio.sleep(1)
    _signal(child, signal.SIGKILL)


def _signal(child: asyncio.subprocess.Process, number: int) -> None:
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
