"""Presets as they lie in recipes/: the GPU, the model that a recipe serves, and the tensors of its checkpoint."""

from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from launcher.capacity import config
from launcher.capacity.config import Attention
from launcher.capacity.preset import Hardware, Inventory, Model
from launcher.overlay import overlay
from launcher.recipe import Recipe
from sparkctl import content, edge
from sparkctl.cli.served import read_recipe
from sparkctl.cli.session import Session, settings
from sparkctl.errors import UsageFault

ModelOption = Annotated[
    str | None, typer.Option("--model", help="A model of recipes/models, or a path; default: the recipe's.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The model's config.json, in place of a preset."),
]
HardwareOption = Annotated[str, typer.Option("--hardware", help="A GPU of recipes/hardware, or a path.")]


def recipe(session: Session, name: str | None, pairs: list[str] | None) -> Recipe:
    """Read a recipe with `--set` on top; without a name the one of the only line.

    Raises:
        UsageFault: no recipe was named, here or there.

    """
    if name is None and session.inventory_path.exists():
        name = session.line(None).recipe
    if name is None:
        raise UsageFault(
            "no recipe was named, and no line of an inventory names one",
            hint="name one with --recipe; sparkctl recipes list has them",
        )
    found, engine = read_recipe(name)
    return overlay(found, settings(pairs), engine)


def hardware(name: str) -> Hardware:
    """Read a GPU by name or path."""
    return edge.read(content.hardware(name), Hardware)


def model(name: str) -> Model:
    """Read a model by name or path."""
    return edge.read(content.model(name), Model)


def served(by: Recipe) -> Model | None:
    """Return the model whose folder a recipe serves; None where no preset knows the folder."""
    folder = PurePosixPath(by.model.path).name
    found = (model(name) for name in content.models())
    return next((one for one in found if folder in one.folders), None)


def of_recipe(by: Recipe, name: str | None) -> Model:
    """Return the model called `name`, else the one that the recipe serves.

    Raises:
        UsageFault: no preset knows the recipe's folder.

    """
    found = model(name) if name else served(by)
    if found is None:
        raise UsageFault(
            f"{by.name} serves {by.model.path}, and no model in recipes/models has that folder",
            hint=f"name one with --model ({', '.join(content.models())}), or give the model's config.json with --config",
        )
    return found


def attention(by: Recipe, name: str | None, path: Path | None) -> Attention:
    """Return what the model of a recipe keeps for attention: from a config.json, or from its preset."""
    if path is not None:
        return config.attention(edge.read_raw(path), str(path))
    found = of_recipe(by, name)
    return config.attention(found.config, str(content.model(found.name)) + ": config")


def inventory(found: Model) -> Inventory:
    """Read the tensors of a model's checkpoint.

    Raises:
        UsageFault: its preset names none.

    """
    if found.tensors is None:
        raise UsageFault(
            f"model {found.name} comes without an inventory of its tensors",
            hint="give the folder of its safetensors files with --weights; only their headers are read",
        )
    return edge.read(content.tensors(found.tensors), Inventory)
