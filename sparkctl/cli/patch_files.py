"""A patch set as it lies on this controller: its manifest, its files, and a recipe with what it binds."""

import hashlib
from dataclasses import replace
from pathlib import Path

from launcher.patchset import PatchSet, misfits, wrong_files
from launcher.recipe import Recipe
from sparkctl import edge
from sparkctl.errors import FileFault

MANIFEST = "patch-set.yml"


def read(folder: Path) -> PatchSet:
    """Read a patch set and hold its files against their hashes.

    Raises:
        FileFault: the manifest is wrong, or a file is missing or another than it says; all at once.

    """
    path = folder / MANIFEST
    patches = edge.read(path, PatchSet)
    names = [one.file for one in patches.patches if (folder / one.file).is_file()]
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    wrong = wrong_files(patches, found)
    if wrong:
        raise FileFault(
            "\n".join(f"{folder / one}" for one in wrong),
            hint=f"take the file that was meant, or write what it holds now into {path} (sha256sum FILE)",
        )
    return patches


def folder_of(recipe: Recipe, path: Path) -> Path | None:
    """Return the folder of a recipe's patch set, given where the recipe lies."""
    return path.parent / Path(recipe.engine.patches).expanduser() if recipe.engine.patches else None


def bound(recipe: Recipe, path: Path) -> Recipe:
    """Return the recipe with the files of its patch set bound into the container, and asked for from inside it.

    Raises:
        FileFault: the set is wrong, or does not fit the recipe's engine.

    """
    folder = folder_of(recipe, path)
    if folder is None:
        return recipe
    patches = read(folder)
    faults = misfits(patches, recipe)
    if faults:
        raise FileFault(
            "\n".join(f"{path}: $.engine.patches: {one}" for one in faults),
            hint="name a set for this engine; one that was tried with this version may list it under versions",
        )
    mounts = {**recipe.container.mounts, **patches.mounts}
    inside = {**recipe.inside, **{one.target: one.sha256 for one in patches.patches}}
    return replace(recipe, container=replace(recipe.container, mounts=mounts), inside=inside)
