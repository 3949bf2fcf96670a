"""The fork server of a practice cluster: holds every face loaded, and forks for each command that a stub hands over.

`forkserver.py <token>`, run as a bare script by the cluster's daemon. A command runs with the in- and outputs, the folder and the
environment of whoever called it, in a process group of its own, and ends when its caller does.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
from ctypes import CDLL
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_BACKLOG = 128
_GRACE_MS = 1000
_DESCRIPTORS = 3


def main(argv: list[str]) -> int:
    """Serve until killed; it ends with the daemon, however that ends."""
    from rehearsal import face, stub  # noqa: PLC0415 - a bare script finds the package only now

    CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for name in sorted(set(face.MODULES.values()) - {"rank"}):
        importlib.import_module(f"rehearsal.faces.{name}")
    gc.disable()
    gc.freeze()  # a fork that looked through all that is loaded would copy it first
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(stub.address(argv[0]))
        door.listen(_BACKLOG)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who watches a command is nobody's to wait for
        while True:
            caller, _ = door.accept()
            if os.fork() == 0:
                door.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os._exit(_watch(caller, *_read(caller, stub.SIZE)))
            caller.close()


def _read(caller: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Return what a stub asks for, and its descriptors."""
    text, descriptors, _, _ = socket.recv_fds(caller, 1 << 16, _DESCRIPTORS)
    while len(text) < size or len(text) < size + int.from_bytes(text[:size], "little"):
        piece = caller.recv(1 << 16)
        if not piece:
            os._exit(1)
        text += piece
    return text[size:], descriptors


def _watch(caller: socket.socket, asked: bytes, descriptors: list[int]) -> int:
    """Run the command, and tell its exit code to the caller or end it with the caller."""
    command = os.fork()
    if command == 0:
        caller.close()
        os._exit(_run(asked, descriptors))
    for number in descriptors:
        os.close(number)
    ended = os.pidfd_open(command)
    events = select.poll()
    events.register(ended, select.POLLIN)
    events.register(caller, select.POLLIN)
    if not any(number == ended for number, _ in events.poll()):
        _end(command, ended)
        return 0
    _, status = os.waitpid(command, 0)
    code = os.waitstatus_to_exitcode(status)
    caller.sendall(bytes([code if code >= 0 else 128 - code]))
    return 0


def _end(command: int, ended: int) -> None:
    """Ask the command's group to end, and force it after a second, as a terminal that goes away does."""
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    for number in (signal.SIGHUP, signal.SIGKILL):
        try:
            os.killpg(command, number)
        except ProcessLookupError:
            return
        if waiting.poll(_GRACE_MS):
            return


def _run(asked: bytes, descriptors: list[int]) -> int:
    """Become the command and answer it."""
    from rehearsal import face  # noqa: PLC0415 - as above

    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        if descriptor >= _DESCRIPTORS:
            os.close(descriptor)
    folder, count, *rest = map(os.fsdecode, asked.split(b"\0"))
    os.chdir(folder)
    words, variables = rest[: int(count)], rest[int(count) :]
    os.environ.clear()
    os.environ.update({name: value for name, _, value in (one.partition("=") for one in variables)})
    try:
        code = face.main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    sys.exit(main(sys.argv[1:]))
