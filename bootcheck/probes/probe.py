"""What a probe is: a command for each node, its limits, and a pure parser of what it printed."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bootcheck.facts import Record
from bootcheck.floors import Floors
from bootcheck.needs import Needs
from sparkctl.line import Line, Node

Argv = tuple[str, ...]

# Nodes come some seconds apart to a probe that needs them all, after others that load them: a cold image or GPU takes its time.
# How long each waits for the others, in s; ours, chosen.
MEET_S = 45.0


_CUT = re.compile(r"\n\[cut: \d+ more bytes\]\n\Z", re.ASCII)


def was_cut(text: str) -> bool:
    """Whether a text was longer than what is kept of one; spark_command then says so at its end."""
    return _CUT.search(text) is not None


def ends_early(record: Record) -> bool:
    """Whether the text ends in the middle of a line, where half a value would pass for a whole one."""
    return bool(record.stdout) and not record.stdout.endswith("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a probe's command may depend on: the line, the node it runs on, the recipe's needs, the floors."""

    line: Line
    node: Node
    needs: Needs
    floors: Floors

    @property
    def peers(self) -> tuple[Node, ...]:
        """The other nodes of the line, in rank order."""
        return tuple(node for node in self.line.nodes if node.name != self.node.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One kind of command that runs on a node.

    `argvs` gives the commands for a target: none, one, or one for each thing it asks about. A probe of group `parallel`
    only reads; `alone` loads the node or the fabric, so that they run one after the other, after the readers.
    `only_if_quiet` names a probe that must have printed at most `most_lines` lines, or this one is not run.
    `on_request` marks a probe that costs minutes and runs only when it is asked for by name. `moves` marks one whose answer
    settling may change: it is asked again afterwards, the others only where they were not answered.
    """

    name: str
    about: str
    argvs: Callable[[Target], tuple[Argv, ...]]
    parse: Callable[[Record], object]
    limit_s: float
    group: Literal["parallel", "alone"] = "parallel"
    only_if_quiet: str = ""
    most_lines: int = 0
    on_request: bool = False
    moves: bool = False
