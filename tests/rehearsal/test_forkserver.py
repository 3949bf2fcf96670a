"""The fork server: a command answers the same with and without it, and ends with whoever called it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal import forkserver, layout, processes, stub
from rehearsal.scenario import named

from .conftest import settles

TOKEN = f"fork-server-test-{os.getpid()}"  # tests of this file may run beside each other


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The folder of a practice node whose commands may find a fork server."""
    layout.furnish(tmp_path, named("healthy"), TOKEN)
    return tmp_path / layout.NODES[0]


@pytest.fixture
def server() -> Iterator[None]:
    """A fork server for that node's cluster."""
    running = subprocess.Popen(
        [layout.python(), "-S", "-E", forkserver.__file__, TOKEN],
        env={"PATH": os.defpath, "LANG": "C.UTF-8", processes.MARK: TOKEN},
    )
    assert settles(_listens)
    yield
    running.kill()
    running.wait()


def _listens() -> bool:
    with socket.socket(socket.AF_UNIX) as trial:
        return trial.connect_ex(stub.address(TOKEN)) == 0


def _ran(node: Path, *argv: str) -> tuple[int, str, str]:
    tool = str(node / "bin" / argv[0])
    ran = subprocess.run([tool, *argv[1:]], capture_output=True, text=True, check=False, cwd=node)
    return ran.returncode, ran.stdout, ran.stderr


COMMANDS = (
    ("uname", "-r"),
    ("cat", "/sys/class/net/enp1s0f0np0/mtu"),
    ("docker", "inspect", "no such"),
    ("docker", "nonsense"),
    ("sudo", "-n", "getconf", "PAGESIZE"),
    ("sudo", "-n", "rm", "-rf", "/"),
    ("ip", "-j", "addr", "show", "ü" * 40_000),
)


@pytest.fixture
def alone(node: Path) -> list[tuple[int, str, str]]:
    """What the commands answer where no fork server listens."""
    return [_ran(node, *argv) for argv in COMMANDS]


@pytest.mark.usefixtures("server")
def test_a_command_answers_the_same(alone: list[tuple[int, str, str]], node: Path) -> None:
    """Exit code and both outputs, also of a command that becomes another one and of words longer than one message."""
    assert [_ran(node, *argv) for argv in COMMANDS] == alone
    assert {code for code, _, _ in alone} >= {0, 1}


@pytest.mark.usefixtures("server")
def test_a_command_ends_with_its_caller(node: Path) -> None:
    """A command that follows something does not outlive the ssh session that asked for it."""
    node.joinpath("state.json").write_text(
        node.joinpath("state.json").read_text().replace('"sudo_fault": ""', '"sudo_fault": "slow"'),
        encoding="utf-8",
    )
    calling = subprocess.Popen([str(node / "bin" / "sudo"), "-n", "true"], stderr=subprocess.DEVNULL)
    assert settles(lambda: len(processes.marked(TOKEN)) == 3, limit_s=3), processes.marked(TOKEN)
    calling.send_signal(signal.SIGKILL)
    calling.wait()
    assert settles(lambda: len(processes.marked(TOKEN)) == 1, limit_s=5)


def test_the_server_ends_with_whoever_started_it() -> None:
    """A daemon that is killed leaves no fork server."""
    script = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-S', '-E', {forkserver.__file__!r}, {TOKEN!r}])\n"
        "time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, processes.MARK: TOKEN})
    assert settles(_listens)
    parent.kill()
    parent.wait()
    time.sleep(0.1)
    assert settles(lambda: not processes.marked(TOKEN))


class _Slow(socket.socket):
    """A connection whose owner is put aside by the kernel once it has sent."""

    def sendmsg(self, *arguments: Any) -> int:
        sent = super().sendmsg(*arguments)
        time.sleep(0.3)
        return sent


def test_an_answer_that_comes_at_once_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the server has answered and closed before the caller gets to run again."""
    monkeypatch.setattr(stub, "socket", _Slow)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(stub.address(TOKEN))
        door.listen()
        answering = threading.Thread(target=_answer, args=(door, 7))
        answering.start()
        assert stub.hand_over(TOKEN, ["node", "true"]) == 7
        answering.join()


def _answer(door: socket.socket, code: int) -> None:
    caller, _ = door.accept()
    with caller:
        _, descriptors, _, _ = socket.recv_fds(caller, 1 << 16, 3)
        for number in descriptors:
            os.close(number)
        caller.sendall(bytes([code]))
