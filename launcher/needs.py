"""Needs: what a recipe asks of the nodes of a line, in the terms of the probes and gates. Pure."""

from bootcheck.needs import Needs
from launcher.capacity.memory import Table
from launcher.command import engine_argv, environment
from launcher.recipe import Recipe
from sparkctl.line import Line


def needs(recipe: Recipe, line: Line, memory: Table | None = None) -> Needs:
    """Return what every node must offer before a rank of this recipe may start there; `memory` is what its ranks will hold."""
    container = recipe.container
    options = [
        *(("--device", name) for name in container.devices),
        *(("--cap-add", name) for name in container.capabilities),
        *(("--ulimit", f"{name}={value}") for name, value in container.ulimits.items()),
    ]
    return Needs(
        image=recipe.engine.image,
        model_path=recipe.model.path,
        model_folder=_outside(recipe.model.path, recipe),
        mounts=dict(container.mounts),
        environments={node.name: environment(recipe, node) for node in line.nodes},
        arguments={node.name: engine_argv(recipe, line, node) for node in line.nodes},
        fabric_options=tuple(part for option in options for part in option),
        shared_gib=recipe.memory.shared_gib,
        memory_gib={node.name: memory.needed_gib(node.rank % memory.ranks) for node in line.nodes}
        if memory
        else {},
    )


def _outside(inside: str, recipe: Recipe) -> str:
    """Return where a path of the container lies on the node; empty when no mount covers it."""
    for source, target in recipe.container.mounts.items():
        folder = target.removesuffix(":ro").rstrip("/")
        if inside == folder or inside.startswith(f"{folder}/"):
            return source.rstrip("/") + inside[len(folder) :]
    return ""
