"""Manifest: what an image is and what it is built from, as values. Pure; docs/formats.md describes the file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

BASE = "BASE"
"""The build argument that holds the base image."""

_NAME = re.compile(r"^[a-z0-9]+(?:[._-][a-z0-9]+)*$")
_TAGGED = re.compile(r"^[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$")
_BY_DIGEST = re.compile(r"^[a-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}$")
_ARGUMENT = re.compile(r"^[A-Z][A-Z0-9_]*$")
_FILE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def is_by_digest(reference: str) -> bool:
    """Whether an image is named by its digest, so that the name means the same content for ever."""
    return bool(_BY_DIGEST.match(reference))


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The image that another is built on; without a `reference` the owner gives one."""

    about: str
    reference: str | None = None

    def __post_init__(self) -> None:
        if self.reference is not None and not is_by_digest(self.reference):
            raise ValueError(f"reference: wanted NAME@sha256:<64 hex digits>, found {self.reference!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One value that the build gets, and where it comes from."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A whole image.yml. `files` lie beside it and are what the build sees, with the Containerfile."""

    schema: Literal[1]
    name: str
    about: str
    image: str
    """What the finished image is called, and what recipes name."""
    platform: Literal["linux/arm64", "linux/amd64"]
    sources: tuple[str, ...]
    base: Base
    space_gib: float
    """Free space that docker must have before the build, in GiB."""
    arguments: Mapping[str, Argument]
    files: tuple[str, ...] = ()
    leaves_out: tuple[str, ...] = ()
    """What somebody may expect in it and does not find."""

    def __post_init__(self) -> None:
        faults = []
        if not _NAME.match(self.name):
            faults.append(f"name: wanted small letters, digits and dashes, found {self.name!r}")
        if not _TAGGED.match(self.image) or self.image.endswith(":latest"):
            faults.append(f"image: wanted NAME:TAG with a tag that is not latest, found {self.image!r}")
        if self.space_gib <= 0:
            faults.append(f"space_gib: wanted more than 0, found {self.space_gib:g}")
        faults += [
            f"arguments: wanted names of capitals other than {BASE}, found {name!r}"
            for name in self.arguments
            if name == BASE or not _ARGUMENT.match(name)
        ]
        faults += [
            f"files: wanted the name of a file beside image.yml, found {name!r}"
            for name in self.files
            if not _FILE.match(name) or name == CONTAINERFILE
        ]
        if faults:
            raise ValueError("; ".join(faults))


CONTAINERFILE = "Containerfile"
"""The file beside image.yml that says how the image is built."""
