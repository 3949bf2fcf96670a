"""docker stop, kill, wait and rm of a practice node: signals to real processes, and their ends."""

import signal
import sys
import time
from collections.abc import Callable

from rehearsal import processes
from rehearsal.containers import Container, find, forget
from rehearsal.faces.docker_view import absent, split, too_few
from rehearsal.node import Node

_POLL_S = 0.01
_WAIT_S = 0.05
_KILL_S = 5.0


def stop(node: Node, arguments: list[str]) -> int:
    """Answer docker stop: SIGTERM, and SIGKILL after the time given."""
    valued = dict.fromkeys(("-t", "--time", "--timeout"), "time") | {"-s": "signal", "--signal": "signal"}
    options, names = split("stop", arguments, valued, {})
    limit_s = float((options.get("time") or ["10"])[-1])
    return _each(node, names, "stop", lambda one: _end(one, limit_s))


def kill(node: Node, arguments: list[str]) -> int:
    """Answer docker kill."""
    options, names = split("kill", arguments, {"-s": "signal", "--signal": "signal"}, {})
    asked = (options.get("signal") or ["KILL"])[-1].removeprefix("SIG")
    number = int(asked) if asked.isdigit() else signal.Signals[f"SIG{asked}"]

    def hit(one: Container) -> str:
        process = one.process()
        if process is None or not one.is_running():
            return f"cannot kill container: {one.name}: container {one.id} is not running"
        processes.send(process, number)
        if number == signal.SIGKILL:
            _gone(one, _KILL_S)
        return ""

    return _each(node, names, "kill", hit)


def wait(node: Node, arguments: list[str]) -> int:
    """Answer docker wait: each container's exit code once it has ended."""
    _, names = split("wait", arguments, {}, {})
    if not names:
        return too_few("wait")
    status = 0
    for name in names:
        container = find(node.root, name)
        if container is None:
            status = absent(name)
            continue
        process = container.process()  # this one: a later container may take over the name
        while process and processes.is_alive(process):
            time.sleep(_WAIT_S)
        sys.stdout.write(f"{container.ending()[0]}\n")
        sys.stdout.flush()
    return status


def rm(node: Node, arguments: list[str]) -> int:
    """Answer docker rm."""
    bare = dict.fromkeys(("-f", "--force"), "force") | dict.fromkeys(
        ("-v", "--volumes", "-fv", "-vf"), "volumes"
    )
    options, names = split("rm", arguments, {}, bare)
    force = "force" in options

    def remove(one: Container) -> str:
        if one.is_running() and not force:
            return f'cannot remove container "/{one.name}": container is running: stop the container before removing or force remove'
        _end(one, 0)
        forget(one)
        return ""

    return _each(node, names, "rm", remove, lenient=force)


def _each(
    node: Node, names: list[str], verb: str, act: Callable[[Container], str], *, lenient: bool = False
) -> int:
    """Do one thing to each named container: its name on success, the daemon's words otherwise."""
    if not names:
        return too_few(verb)
    status = 0
    for name in names:
        container = find(node.root, name)
        if container is None:
            # `docker rm -f` of what is not there is a remark, not a failure.
            status = max(status, absent(name) if not lenient else absent(name) * 0)
            continue
        fault = act(container)
        if fault:
            sys.stderr.write(f"Error response from daemon: {fault}\n")
            status = 1
        else:
            sys.stdout.write(f"{name}\n")
    return status


def _end(one: Container, limit_s: float) -> str:
    process = one.process()
    if process is not None:
        if limit_s > 0:
            processes.send(process, signal.SIGTERM)
            _gone(one, limit_s)
        processes.send(process, signal.SIGKILL)
        _gone(one, _KILL_S)
    return ""


def _gone(one: Container, limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while one.is_running() and time.monotonic() < until:
        time.sleep(_POLL_S)
