"""docker stop, kill, wait and rm of the containers that a practice node had before: no process stands behind them."""

import sys
from collections.abc import Callable

from rehearsal.containers import KILLED
from rehearsal.faces import standing
from rehearsal.faces.standing import Shown
from rehearsal.node import Node

Verb = Callable[[Node, list[str]], int]

_VALUED = frozenset({"-t", "--time", "--timeout", "-s", "--signal"})


def before(verb: Verb, name: str) -> Verb:
    """Return the verb that first does its work on old containers and leaves the rest of the operands to `verb`."""

    def both(node: Node, arguments: list[str]) -> int:
        mine = [word for word in _operands(arguments) if (one := standing.find(node, word)) and one.is_old]
        if not mine:
            return verb(node, arguments)
        status = max(_act(node, name, word, arguments) for word in mine)
        rest = [word for word in arguments if word not in mine]
        return max(status, verb(node, rest)) if _operands(rest) else status

    return both


def _operands(arguments: list[str]) -> list[str]:
    pairs = zip(["", *arguments], arguments, strict=False)
    return [word for earlier, word in pairs if not word.startswith("-") and earlier not in _VALUED]


def _act(node: Node, verb: str, word: str, arguments: list[str]) -> int:
    one = standing.find(node, word)
    if one is None:  # named twice
        return 0
    said = _ACTS[verb](node, one, arguments)
    if said:
        sys.stderr.write(f"Error response from daemon: {said}\n")
        return 1
    sys.stdout.write(f"{one.ending[0] if verb == 'wait' else word}\n")
    return 0


def _stop(node: Node, one: Shown, _: list[str]) -> str:
    standing.stop(node, one, 0)
    return ""


def _kill(node: Node, one: Shown, _: list[str]) -> str:
    if not one.is_running:
        return f"cannot kill container: {one.told.name}: container {one.told.id} is not running"
    standing.stop(node, one, KILLED)
    return ""


def _wait(_: Node, one: Shown, __: list[str]) -> str:
    return f"container {one.told.id} does not end on a practice node" if one.is_running else ""


def _rm(node: Node, one: Shown, arguments: list[str]) -> str:
    if one.is_running and not {"-f", "--force", "-fv", "-vf"} & set(arguments):
        return (
            f'cannot remove container "/{one.told.name}": container is running: '
            "stop the container before removing or force remove"
        )
    standing.remove(node, one)
    return ""


_ACTS = {"stop": _stop, "kill": _kill, "wait": _wait, "rm": _rm}
