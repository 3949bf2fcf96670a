"""Patch sets: what a manifest may say, which recipe takes one, and what a rank must say of its files."""

import dataclasses
import hashlib
from pathlib import Path

import pytest
import yaml

from launcher import evidence
from launcher.patchset import Patch, PatchSet, digest, misfits
from launcher.recipe import Recipe
from sparkctl.cli import patch_files
from sparkctl.cli.served import read_recipe
from sparkctl.errors import FileFault

TEXT = "print('patched')\n"
SHA256 = hashlib.sha256(TEXT.encode()).hexdigest()
TARGET = "/opt/venv/lib/python3.12/site-packages/vllm/engine.py"
PATCH = {
    "file": "engine.py",
    "target": TARGET,
    "sha256": SHA256,
    "why": "the tests want it",
    "upstream": "none: for the tests",
}
MANIFEST = {
    "schema": 1,
    "name": "of-the-tests",
    "about": "one file",
    "engine": "vllm",
    "versions": ["0.33.0"],
    "patches": [PATCH],
}


def _folder(path: Path, **changes: object) -> Path:
    folder = path / "set"
    folder.mkdir()
    (folder / "engine.py").write_text(TEXT, encoding="utf-8")
    (folder / "patch-set.yml").write_text(yaml.safe_dump(MANIFEST | changes), encoding="utf-8")
    return folder


def _recipe(path: Path, folder: str, version: str = "0.33.0") -> str:
    recipe = {
        "schema": 1,
        "base": "any-model",
        "name": "patched",
        "about": "any model with a patch",
        "sources": ["the tests"],
        "engine": {"patches": folder, "version": version},
    }
    (path / "patched.yml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return str(path / "patched.yml")


def test_a_recipe_binds_its_set_and_asks_for_it_inside(tmp_path: Path) -> None:
    """Read-only, from a folder that is named after the content, and by hash from inside the container."""
    _folder(tmp_path)
    recipe, _ = read_recipe(_recipe(tmp_path, "set"))
    patches = patch_files.read(tmp_path / "set")
    assert recipe.container.mounts[f"{patches.place}/engine.py"] == f"{TARGET}:ro"
    assert recipe.inside == {TARGET: SHA256}
    assert patches.place == f"/srv/sparkctl-patches/of-the-tests-{digest(patches)[:12]}"


def test_an_engine_of_a_version_that_the_set_does_not_know_is_refused(tmp_path: Path) -> None:
    """A file of one version laid over another is how a rank serves nonsense."""
    _folder(tmp_path, versions=["0.31.0", "0.32.0"])
    with pytest.raises(FileFault, match=r"fits vllm 0\.31\.0, 0\.32\.0; the recipe is for vllm 0\.33\.0"):
        read_recipe(_recipe(tmp_path, "set"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"patches": [PATCH | {"sha256": "0" * 64}]}, f"SHA-256 {SHA256}, wanted {'0' * 64}"),
        ({"patches": [PATCH | {"file": "other.py"}]}, "other.py: there is no such file"),
        ({"patches": [PATCH | {"file": "../engine.py"}]}, "wanted the name of a file beside the manifest"),
        ({"patches": [PATCH | {"target": "engine.py"}]}, "wanted an absolute path inside the image"),
        ({"patches": [PATCH | {"sha256": "abc"}]}, "wanted 64 hex digits"),
        ({"patches": [PATCH, PATCH]}, "given twice"),
        ({"name": "Of The Tests"}, "wanted small letters"),
        ({"folder": "patches"}, "wanted an absolute path on the nodes"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_set_is_refused_with_its_reason(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    """Before any node is touched."""
    with pytest.raises(FileFault) as told:
        patch_files.read(_folder(tmp_path, **changes))
    assert said in str(told.value)


def test_another_content_is_another_folder() -> None:
    """So a set is never changed under a rank that runs; words beside it change nothing."""
    patch = Patch(file="a.py", target="/a.py", sha256="0" * 64, why="w", upstream="u")
    one = PatchSet(schema=1, name="n", about="a", engine="vllm", versions=("0.33.0",), patches=(patch,))
    other = dataclasses.replace(one, patches=(dataclasses.replace(patch, sha256="1" * 64),))
    told = dataclasses.replace(one, about="b", patches=(dataclasses.replace(patch, why="other"),))
    assert one.place != other.place
    assert one.place == told.place


def test_a_file_that_the_recipe_binds_too_is_refused(recipe: Recipe) -> None:
    """Docker would take one of both without a word."""
    patch = Patch(file="a.py", target="/a.py", sha256="0" * 64, why="w", upstream="u")
    patches = PatchSet(
        schema=1,
        name="n",
        about="a",
        engine="vllm",
        versions=(recipe.engine.version,),
        patches=(patch,),
    )
    container = dataclasses.replace(recipe.container, mounts={"/x/a.py": "/a.py:ro"})
    bound = dataclasses.replace(recipe, container=container)
    assert misfits(patches, recipe) == ()
    assert misfits(patches, bound) == ("/a.py is bound by the recipe too (container.mounts)",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{'0' * 64}  /a b.py\n", ()),
        (f"{'1' * 64}  /a b.py\n", (f"/a b.py has SHA-256 {'1' * 64}, wanted {'0' * 64}",)),
        ("", (f"/a b.py cannot be read, wanted {'0' * 64}",)),
        ("OCI runtime exec failed", (f"/a b.py cannot be read, wanted {'0' * 64}",)),
    ],
)
def test_what_a_rank_says_of_its_files_is_held_against_the_set(text: str, said: tuple[str, ...]) -> None:
    """Another content and no answer are faults alike."""
    assert evidence.wrong_files(text, {"/a b.py": "0" * 64}) == said
