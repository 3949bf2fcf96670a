"""The doorway through which nodes are watched, against a real SSH server that treats a command as OpenSSH does."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from sparkctl import unreachable
from sparkctl.line import Line, Node, Rail
from sparkctl.shell import Shell

LOOKING_S = 30.0


class Sshd:
    """One SSH server that answers for every node; a command that loses its caller only sees its input end."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.key_file, self.known_hosts = folder / "key", folder / "known_hosts"
        self.key.write_private_key(self.key_file)
        self.acceptor = self.loop.run_until_complete(self._listen())
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        public = self.key.export_public_key().decode().strip()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public}\n")

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.acceptor.get_port())

    def cut(self) -> None:
        """Break every connection off, as a pulled cable does in the end, and take new ones."""
        self.loop.call_soon_threadsafe(lambda: [one.abort() for one in tuple(self.connections)])

    def close(self) -> None:
        """End it."""
        self.cut()
        asyncio.run_coroutine_threadsafe(self._close(), self.loop).result(LOOKING_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def _listen(self) -> asyncssh.SSHAcceptor:
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self.running: set[asyncio.Task[None]] = set()
        own = self

        class Server(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                own.connections.add(conn)
                self.connection = conn

            def connection_lost(self, exc: Exception | None) -> None:
                del exc
                own.connections.discard(self.connection)

        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=Server,
            server_host_keys=[self.key],
            authorized_client_keys=asyncssh.import_authorized_keys(self.key.export_public_key().decode()),
            process_factory=self._handle,
            encoding=None,
        )

    async def _close(self) -> None:
        self.acceptor.close()
        await self.acceptor.wait_closed()
        await asyncio.wait_for(asyncio.gather(*self.running), LOOKING_S)

    async def _handle(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        task = asyncio.current_task()
        assert task is not None
        self.running.add(task)
        child = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", process.command or ""),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert child.stdin is not None
        hearing = asyncio.create_task(self._input_ends(process, child.stdin))
        await asyncio.gather(
            self._pump(child.stdout, process.stdout), self._pump(child.stderr, process.stderr)
        )
        code = await child.wait()
        with contextlib.suppress(OSError, asyncssh.Error):
            process.exit(code)
        hearing.cancel()
        self.running.discard(task)

    async def _input_ends(
        self, process: "asyncssh.SSHServerProcess[bytes]", target: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(asyncssh.Error):
            while await process.stdin.read(1024):
                pass
        target.close()

    async def _pump(self, source: asyncio.StreamReader | None, target: "asyncssh.SSHWriter[bytes]") -> None:
        assert source is not None
        while chunk := await source.read(1024):
            if not target.is_closing():
                target.write(chunk)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server that ends with the module; every command that it ran must have ended by then."""
    made = Sshd(tmp_path_factory.mktemp("sshd"))
    yield made
    made.close()


@pytest.fixture
def line(sshd: Sshd) -> Line:
    """Two nodes behind that server."""
    nodes = tuple(
        Node(
            name=f"spark-a{rank}",
            rank=rank,
            host="127.0.0.1",
            port=sshd.port,
            user="spark",
            key_file=str(sshd.key_file),
            rails=(Rail(interface="enp1s0f0np0", address=f"10.0.0.{rank + 1}", hca="rocep1s0f0"),),
        )
        for rank in range(2)
    )
    return Line(
        name="A",
        nodes=nodes,
        recipe=None,
        api_host="127.0.0.1",
        api_port=8000,
        master_port=29501,
        floors={},
        known_hosts=str(sshd.known_hosts),
        source="inventory.yml",
    )


def becomes(is_so: Callable[[], bool]) -> bool:
    """Whether something comes true soon."""
    until = time.monotonic() + LOOKING_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.01)
    return is_so()


class Heard:
    """Keeps what was handed on."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def take(self, node: str, line: str) -> None:
        """Keep a line."""
        self.lines.append((node, line))

    def of(self, node: str) -> list[str]:
        """Return one node's lines."""
        return [line for name, line in self.lines if name == node]


def test_lines_come_whole_with_their_node(line: Line) -> None:
    """Half lines are joined, both outputs come, blank lines do not, and the end of each command is told."""
    says = {
        "spark-a0": ("sh", "-c", "printf 'one\\n\\nt'; sleep 0.1; printf 'wo\\nlast'; exit 3"),
        "spark-a1": ("sh", "-c", "echo 10; printf '\\r20\\r'; echo bad >&2"),
    }
    heard = Heard()
    with Shell(line) as shell, shell.follow(says, heard.take) as following:
        assert becomes(lambda: all(one.rc is not None for one in following.streams()))
        ends = [(one.node, one.rc, one.lost) for one in following.streams()]
    assert ends == [("spark-a0", 3, ""), ("spark-a1", 0, "")]
    assert heard.of("spark-a0") == ["one", "two", "last"]
    assert sorted(heard.of("spark-a1")) == ["10", "20", "bad"]


def test_closing_is_prompt_and_leaves_nothing(line: Line, tmp_path: Path) -> None:
    """A command that would say nothing for an hour ends on its node, and no thread of ours stays."""
    before = set(threading.enumerate())
    mark = tmp_path / "pid"
    argv = ("sh", "-c", f"echo $$ > {mark}; exec sleep 3600")
    with Shell(line) as shell:
        with shell.follow({"spark-a0": argv}, lambda *_: None) as following:
            assert becomes(lambda: mark.exists() and mark.read_text().endswith("\n"))
            (stream,) = following.streams()
            assert (stream.rc, stream.lost) == (None, "")
            assert 0 < stream.silent_s < LOOKING_S
            began = time.monotonic()
        assert time.monotonic() - began < 1
        assert shell.run_each({"spark-a0": ("true",)})[0].rc == 0, "the connection is kept"
    # asyncio waits for the server's children in threads of its own.
    assert [one for one in set(threading.enumerate()) - before if not one.name.startswith("waitpid")] == []
    pid = int(mark.read_text())
    assert becomes(lambda: not Path(f"/proc/{pid}").exists())


def test_a_lost_connection_is_told_and_can_be_resumed(line: Line, sshd: Sshd) -> None:
    """Nobody learns how the command ended; once the node answers again it is started again."""
    heard = Heard()
    with (
        Shell(line) as shell,
        shell.follow({"spark-a1": ("sh", "-c", "echo up; exec sleep 9")}, heard.take) as following,
    ):
        assert becomes(lambda: len(heard.lines) == 1)
        sshd.cut()
        assert becomes(lambda: following.streams()[0].lost != "")
        assert following.streams()[0].rc is None
        following.resume()
        assert becomes(lambda: len(heard.lines) == 2)
        assert following.streams()[0].lost == ""


def test_a_node_that_refuses_us_is_a_value(line: Line, tmp_path: Path) -> None:
    """A host key that is not known is told with paramiko's words, not raised, by both ways of asking."""
    empty = tmp_path / "known_hosts"
    empty.touch()
    stranger = replace(line, known_hosts=str(empty))
    with Shell(stranger) as shell, shell.follow({"spark-a0": ("true",)}, lambda *_: None) as following:
        assert becomes(lambda: "not found in known_hosts" in following.streams()[0].lost)
        said = shell.run(("true",))
    assert [one.rc for one in said] == [None, None]
    assert all("not found in known_hosts" in one.stderr for one in said)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"other ssh-ed25519 AAA\n", id="no base64"),
        pytest.param(b"other ssh-ed25519 \xe9\n", id="no text"),
        pytest.param(b"other ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAA2FiYw==\n", id="no key"),
        pytest.param(
            b"|1|AAAA|AAAA ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n",
            id="no hash",
        ),
    ],
)
def test_a_damaged_known_hosts_is_a_value(line: Line, sshd: Sshd, tmp_path: Path, damage: bytes) -> None:
    """One line that cannot be read is told with its file by both ways of asking, and raised by neither."""
    damaged = tmp_path / "known_hosts"
    damaged.write_bytes(damage + sshd.known_hosts.read_bytes())
    told = replace(line, known_hosts=str(damaged))
    with Shell(told) as shell, shell.follow({"spark-a0": ("true",)}, lambda *_: None) as following:
        assert becomes(lambda: following.streams()[0].lost != "")
        said = shell.run(("true",))
        lost = following.streams()[0].lost
    assert [one.rc for one in said] == [None, None]
    for text in (lost, *(one.stderr for one in said)):
        assert unreachable.say(text)[0].startswith(f"known_hosts or a key file is damaged ({damaged}")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_broke_off_is_no_silent_one(line: Line) -> None:
    """Whatever its lines were handed to may fail: the stream is lost then, and can be resumed."""

    def take(_: str, text: str) -> None:
        raise RuntimeError(text)

    with Shell(line) as shell, shell.follow({"spark-a0": ("echo", "x")}, take) as following:
        assert becomes(lambda: following.streams()[0].lost != "")
        assert following.streams()[0].rc is None


def test_a_resumed_command_is_made_anew(line: Line, sshd: Sshd) -> None:
    """What makes the command is asked at every start, so that a log goes on where it was left."""
    heard, starts = Heard(), iter(range(9))

    def command() -> tuple[str, ...]:
        return ("sh", "-c", f"echo start {next(starts)}; exec sleep 9")

    with Shell(line) as shell, shell.follow({"spark-a1": command}, heard.take) as following:
        assert becomes(lambda: len(heard.lines) == 1)
        sshd.cut()
        assert becomes(lambda: following.streams()[0].lost != "")
        following.resume()
        assert becomes(lambda: len(heard.lines) == 2)
    assert heard.of("spark-a1") == ["start 0", "start 1"]


def test_commands_run_beside_what_is_followed(line: Line) -> None:
    """Several threads may ask over the same connections at once."""
    heard = Heard()
    forever = ("sh", "-c", "while echo tick; do sleep 0.01; done")
    answers: list[int | None] = []
    with Shell(line) as shell, shell.follow({node.name: forever for node in line.nodes}, heard.take):
        asking = [
            threading.Thread(target=lambda: answers.extend(one.rc for one in shell.run(("echo", "x"))))
            for _ in range(3)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert answers == [0] * 6
    assert {node for node, _ in heard.lines} == {"spark-a0", "spark-a1"}


def test_a_command_without_an_answer_has_a_limit(line: Line) -> None:
    """What takes longer than the limit is no answer; the node's connection stays usable."""
    with Shell(line, limit_s=0.2) as shell:
        late = shell.run_each({"spark-a0": ("sleep", "1")})[0]
        assert (late.rc, late.stderr) == (None, "no answer within 0.2 s: timed out")
        shell._limit_s = LOOKING_S
        assert shell.run_each({"spark-a0": ("true",)})[0].rc == 0


def test_a_request_without_an_answer_has_a_limit_too(line: Line) -> None:
    """Paramiko waits for ever for the answer to a request; the connection is closed under it, and that is told."""
    with Shell(line) as shell:
        assert shell.run_each({"spark-a0": ("true",)})[0].rc == 0
        with shell._bounded(line.nodes[0], 0.05):
            assert becomes(lambda: "spark-a0" not in shell._connections)
        assert shell.run_each({"spark-a0": ("true",)})[0].rc == 0


def test_nothing_heavy_is_imported_with_it() -> None:
    """`sparkctl --help` pays for no SSH library."""
    code = "import sys, sparkctl.shell; print(sorted({'fabric', 'paramiko', 'invoke'} & sys.modules.keys()))"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert ran.stdout.strip() == "[]"
