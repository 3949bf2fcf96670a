"""Patch set: files that are laid over those of the image, each with its hash, its reason and where it comes from. Pure.

A rank with another patch is the commonest way in which four nodes serve nonsense together (docs/field.md). So a set is a folder with a
manifest, named after its content; a recipe binds it read-only, and every rank is asked from inside its container after the start.
"""

import hashlib
import json
import posixpath
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from launcher.recipe import Recipe

_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,63}$")
_SHA256 = re.compile(r"^[0-9a-f]{64}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One file of the set: its name there, which file of the image it stands for, and what it must hold.

    `upstream` is a public pull request, issue or commit, or says why there is none.
    """

    file: str
    target: str
    sha256: str
    why: str
    upstream: str

    def __post_init__(self) -> None:
        if "/" in self.file or self.file in {"", ".", ".."}:
            raise ValueError(f"file: wanted the name of a file beside the manifest, found {self.file!r}")
        if not posixpath.isabs(self.target) or ":" in self.target:
            raise ValueError(f"target: wanted an absolute path inside the image, found {self.target!r}")
        if not _SHA256.match(self.sha256):
            raise ValueError(f"sha256: wanted 64 hex digits, found {self.sha256!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSet:
    """A set: `versions` are those of the engine that it fits, `folder` is where sets lie on the nodes."""

    schema: Literal[1]
    name: str
    about: str
    engine: str
    versions: tuple[str, ...]
    patches: tuple[Patch, ...]
    folder: str = "/srv/sparkctl-patches"

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"name: wanted small letters, digits, dots and dashes, found {self.name!r}")
        if not posixpath.isabs(self.folder) or ":" in self.folder:
            raise ValueError(f"folder: wanted an absolute path on the nodes, found {self.folder!r}")
        for what, values in (
            ("file", [one.file for one in self.patches]),
            ("target", [one.target for one in self.patches]),
        ):
            twice = [value for value, count in Counter(values).items() if count > 1]
            if twice:
                raise ValueError(f"patches: {what} {', '.join(twice)} is given twice")

    @property
    def place(self) -> str:
        """Folder of this very content on a node: another content is another folder, so none is replaced under a rank that runs."""
        return posixpath.join(self.folder, f"{self.name}-{digest(self)[:12]}")

    @property
    def mounts(self) -> Mapping[str, str]:
        """What a container binds: each file over its target, read-only."""
        return {posixpath.join(self.place, one.file): f"{one.target}:ro" for one in self.patches}


def digest(patches: PatchSet) -> str:
    """Return the SHA-256 of what the set does: every target with its content."""
    told = sorted((one.target, one.file, one.sha256) for one in patches.patches)
    return hashlib.sha256(json.dumps(told, separators=(",", ":")).encode()).hexdigest()


def misfits(patches: PatchSet, recipe: Recipe) -> tuple[str, ...]:
    """Return why a recipe cannot take a set; empty when it can."""
    engine, faults = recipe.engine, []
    if patches.engine != engine.kind or engine.version not in patches.versions:
        faults.append(
            f"patch set {patches.name} fits {patches.engine} {', '.join(patches.versions)}; the recipe is for "
            f"{engine.kind} {engine.version}, and nothing is known of it there"
        )
    bound = {target.removesuffix(":ro") for target in recipe.container.mounts.values()}
    faults += [
        f"{one.target} is bound by the recipe too (container.mounts)"
        for one in patches.patches
        if one.target in bound
    ]
    return tuple(faults)


def wrong_files(patches: PatchSet, found: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is wrong with the files beside the manifest, given the SHA-256 of those that are there."""
    return tuple(
        f"{one.file}: SHA-256 {found[one.file]}, wanted {one.sha256}"
        if one.file in found
        else f"{one.file}: there is no such file"
        for one in patches.patches
        if found.get(one.file) != one.sha256
    )
