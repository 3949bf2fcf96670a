"""What an image is built from, read from its folder: the manifest, the Containerfile and the files beside it, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.images import lint
from launcher.images.manifest import CONTAINERFILE, Manifest
from sparkctl import content, edge
from sparkctl.errors import FileFault


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFiles:
    """A manifest and the text of every file of its build, Containerfile among them, by name."""

    manifest: Manifest
    texts: Mapping[str, str]
    source: str


def read_files(name: str) -> ImageFiles:
    """Read an image that ships, by name, or one of your own, by the path of its image.yml.

    Raises:
        FileFault: a file is missing or wrong, or the Containerfile breaks a rule; every breach is named.

    """
    path = content.image(name)
    manifest = edge.read(path, Manifest)
    texts = {one: edge.read_text(path.parent / one) for one in (CONTAINERFILE, *manifest.files)}
    breaches = lint.lint(texts[CONTAINERFILE], manifest, texts)
    if breaches:
        told = "\n".join(f"{path.parent / CONTAINERFILE}: {one}" for one in breaches)
        raise FileFault(told, hint=f"{breaches[0].remedy}; docs/images.md has the rules")
    return ImageFiles(manifest=manifest, texts=texts, source=str(path))


def find_files(reference: str) -> ImageFiles | None:
    """Return the image that ships and is called by this reference, None when there is none."""
    found = (read_files(name) for name in content.images())
    return next((one for one in found if one.manifest.image == reference), None)
