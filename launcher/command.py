"""Command: a recipe and a line to the docker command line of every rank. Pure.

Argument lists only: no shell ever parses them. What the container runs is the engine's own module's business.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from launcher import vllm
from launcher.program import Program
from launcher.recipe import Recipe
from sparkctl.line import Line, Node


class Engine(Protocol):
    """What a module offers that tells an engine how to serve a recipe."""

    def program(self, recipe: Recipe, line: Line, node: Node) -> Program:
        """Return what a rank's container runs."""
        ...

    def order(self, recipe: Recipe, line: Line) -> tuple[Node, ...]:
        """Return the nodes in the order in which their ranks start."""
        ...


_ENGINES: Mapping[str, Engine] = {"vllm": vllm}

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCommand:
    """What starts one rank: the container's name, the whole `docker run` and the part of it that the engine sees."""

    node: str
    rank: int
    name: str
    digest: str
    argv: tuple[str, ...]
    engine_argv: tuple[str, ...]
    drawn: tuple[str, ...] = ()
    """Variables that the launch gives one secret, the same on every rank."""
    speaks: bool = True
    """Whether its log tells what the rank does; else the head's tells it."""


def rank_commands(recipe: Recipe, line: Line, boot: str) -> tuple[RankCommand, ...]:
    """Return the command of every rank, in rank order; `boot` is the id of the boot they belong to."""
    return tuple(_rank_command(recipe, line, node, boot) for node in line.nodes)


def launch_order(recipe: Recipe, line: Line) -> tuple[Node, ...]:
    """Return the nodes in the order in which their ranks start."""
    return _ENGINES[recipe.engine.kind].order(recipe, line)


def engine_argv(recipe: Recipe, line: Line, node: Node) -> tuple[str, ...]:
    """Return what the engine of one rank is told."""
    return _ENGINES[recipe.engine.kind].program(recipe, line, node).argv


PLACEHOLDERS = ("fabric_address", "fabric_interface", "hca", "hcas", "management_address", "rank")
"""What `{...}` in a recipe's environment may name; each is filled in for the node."""


def rank_name(line: Line, node: Node) -> str:
    """Return the name of a rank's container."""
    return f"sparkctl-{line.name.lower()}-rank{node.rank}"


def environment(recipe: Recipe, node: Node) -> dict[str, str]:
    """Return a rank's environment: the recipe's, with `{fabric_address}` and the like filled in for the node."""
    first = node.rails[0]
    hcas = ",".join(rail.hca for rail in node.rails)
    filled = (node.fabric_address, first.interface, first.hca, hcas, node.host, str(node.rank))
    values = dict(zip(PLACEHOLDERS, filled, strict=True))
    return {
        name: _PLACEHOLDER.sub(lambda found: values[found[1]], text)
        for name, text in recipe.environment.items()
    }


def placeholder_faults(text: str) -> tuple[str, ...]:
    """Return a fault for each `{...}` in one environment variable that nothing fills in."""
    return tuple(
        f"unknown placeholder {{{hole}}}; wanted one of {', '.join(PLACEHOLDERS)}"
        for hole in _PLACEHOLDER.findall(text)
        if hole not in PLACEHOLDERS
    )


def _rank_command(recipe: Recipe, line: Line, node: Node, boot: str) -> RankCommand:
    name = rank_name(line, node)
    runs = _ENGINES[recipe.engine.kind].program(recipe, line, node)
    options = _docker_options(recipe, node, runs.env)
    rest = (*options, "--entrypoint", runs.entrypoint, recipe.engine.image, *runs.argv)
    digest = hashlib.sha256("\0".join((boot, *rest)).encode()).hexdigest()
    labels = {
        "sparkctl.line": line.name,
        "sparkctl.rank": str(node.rank),
        "sparkctl.boot": boot,
        "sparkctl.digest": digest,
    }
    label_options = tuple(part for key, value in labels.items() for part in ("--label", f"{key}={value}"))
    argv = ("docker", "run", "-d", "--name", name, *label_options, *rest)
    return RankCommand(
        node=node.name,
        rank=node.rank,
        name=name,
        digest=digest,
        argv=argv,
        engine_argv=runs.argv,
        drawn=runs.drawn,
        speaks=runs.speaks,
    )


def _docker_options(recipe: Recipe, node: Node, own: Mapping[str, str]) -> tuple[str, ...]:
    container, memory = recipe.container, recipe.memory
    options = [
        # A restart policy turns one failed boot into an outage (eugr/spark-vllm-docker#257).
        ("--restart", "no"),
        ("--gpus", "all"),
        ("--network", "host"),
        # What a rank leaves in shared memory goes with its container (sgl-project/sglang#28089, reported); docker heeds
        # --shm-size in a private namespace only.
        ("--ipc", "private"),
        ("--shm-size", f"{memory.shared_gib}g"),
        # The same number twice: a container that may not swap.
        ("--memory", f"{memory.container_gib}g"),
        ("--memory-swap", f"{memory.container_gib}g"),
        ("--oom-score-adj", str(container.oom_score_adj)),
        *(("--ulimit", f"{name}={value}") for name, value in container.ulimits.items()),
        *(("--cap-add", name) for name in container.capabilities),
        *(("--device", name) for name in container.devices),
        *(("-v", f"{outside}:{inside}") for outside, inside in container.mounts.items()),
        *(("-e", f"{name}={value}") for name, value in {**own, **environment(recipe, node)}.items()),
    ]
    return tuple(part for option in options for part in option)
