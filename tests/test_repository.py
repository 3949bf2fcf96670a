"""The repository as such: licence, changelog, shell scripts, and nothing of the machine it was written on."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def tracked() -> list[Path]:
    """Return every text file that git tracks or would track."""
    done = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in done.stdout.splitlines()]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:1024]]


def matches(pattern: str) -> list[str]:
    """Return `file:line` of every match in the tracked files but this one."""
    wanted = re.compile(pattern)
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if wanted.search(line)
    ]


def test_no_path_of_somebodys_machine() -> None:
    """No file names a home, a work or a mount folder of the machine it was written on."""
    assert matches(r"(?<![\w.}/])/(home/(?!(?:spark|user)\b)[a-z]+|root/|Users/|work/|mnt/[a-z])") == []


def test_no_loose_end_without_an_issue() -> None:
    """A note to do something later names its issue."""
    assert matches(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))") == []


def test_the_licence_is_apache_2() -> None:
    """The licence text is the one that pyproject.toml names."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_there_is_a_changelog() -> None:
    """Users find what changed."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (Unreleased|\d+\.\d+\.\d+)", text, re.MULTILINE)


def scripts() -> list[Path]:
    """Return every bash script, by its first line or its ending."""
    files = [
        path for folder in ("scripts", ".ci") for path in sorted((ROOT / folder).rglob("*")) if path.is_file()
    ]
    return [
        path
        for path in files
        if path.suffix == ".sh" or path.read_bytes().startswith(b"#!/usr/bin/env bash\n")
    ]


@pytest.mark.parametrize("script", scripts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_shell_scripts_parse(script: Path) -> None:
    """Bash reads the script to its end, and what is meant to be run can be."""
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert script.suffix == ".sh" or os.access(script, os.X_OK)
