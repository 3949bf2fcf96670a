"""Tails: the end of every rank's log, for as long as its container is there. I/O over the shell's kept connections."""

from collections.abc import Mapping
from dataclasses import dataclass

from bootcheck import redact
from launcher import ending
from launcher.command import rank_name
from sparkctl import unreachable
from sparkctl.line import Line
from sparkctl.shell import Said, Shell

MOST = 400
"""Lines of each rank's log that are read for a cause: several processes write their tracebacks after it. Ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The end of one rank's log, secrets withheld; `fault` is empty or says why it could not be read."""

    node: str
    lines: tuple[str, ...] = ()
    fault: str = ""
    is_gone: bool = False
    """Whether the node answered that there is no such container."""
    is_silent: bool = False
    """Whether the node did not answer."""


def read(line: Line, most: int = MOST) -> tuple[Tail, ...]:
    """Return the end of each rank's log in rank order."""
    with Shell(line) as shell:
        return tuple(map(_tail, ask(shell, {node.name: rank_name(line, node) for node in line.nodes}, most)))


def ask(shell: Shell, names: Mapping[str, str], most: int = MOST) -> tuple[Said, ...]:
    """Return docker's answer for each rank's container, by the name that it has on its node."""
    return shell.run_each(
        {node: ("docker", "logs", "--tail", str(most), name) for node, name in names.items()}
    )


def ask_whole(shell: Shell, names: Mapping[str, str]) -> tuple[Said, ...]:
    """Return docker's answer with each rank's whole log."""
    return shell.run_each({node: ("docker", "logs", name) for node, name in names.items()})


def _tail(said: Said) -> Tail:
    if said.rc == 0:
        return Tail(node=said.node, lines=redact.lines((said.stdout + said.stderr).splitlines()))
    text, _ = unreachable.say(said.stderr, answered=said.rc is not None)
    return Tail(
        node=said.node,
        fault=redact.text(text),
        is_gone=said.rc is not None and ending.is_gone(said.stderr),
        is_silent=said.rc is None,
    )
