"""`sparkctl patches sync` over hosts with real sshd and real Ansible: real files on the nodes."""

import hashlib
import shutil
from pathlib import Path

import pytest
import yaml

from rehearsal.hosts import Rack

from ..program import Program

TEXT = "print('patched, with ümlauts and {{ braces }}')\n"
FOLDER = "/run/sparkctl-patches"


@pytest.fixture
def patched(rack: Rack, tmp_path: Path) -> tuple[Program, str]:
    """A program, and an inventory whose line serves a recipe with a patch set."""
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "engine.py").write_text(TEXT, encoding="utf-8")
    patch = {
        "file": "engine.py",
        "target": "/opt/venv/engine.py",
        "sha256": hashlib.sha256(TEXT.encode()).hexdigest(),
        "why": "the tests want it",
        "upstream": "none: for the tests",
    }
    manifest = {
        "schema": 1,
        "name": "of-the-tests",
        "about": "one file",
        "engine": "vllm",
        "versions": ["0.33.0"],
        "folder": FOLDER,
        "patches": [patch],
    }
    (folder / "patch-set.yml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    recipe = {
        "schema": 1,
        "base": "v41-flash-exl3-tp4",
        "name": "patched",
        "about": "with a patch",
        "sources": ["the tests"],
        "engine": {"patches": "set"},
    }
    (tmp_path / "patched.yml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    inventory = rack.inventory("patched", recipe=str(tmp_path / "patched.yml"))
    return Program(tmp_path / "state"), str(inventory)


def _found(rack: Rack, place: str) -> list[str]:
    return [host.namespace.inside("cat", f"{place}/engine.py") for host in rack.hosts]


def test_a_set_comes_to_every_node_once(rack: Rack, patched: tuple[Program, str]) -> None:
    """A plan touches nothing; a run brings the files; a second changes nothing; a file that was changed there is mended."""
    program, inventory = patched
    planned = program("patches", "sync", "--plan", "-i", inventory)
    assert planned.code == 0, planned.err
    place = next(row.split(" make ")[1] for row in planned.out.splitlines() if " make " in row)
    assert place.startswith(f"{FOLDER}/of-the-tests-")
    assert [host.namespace.inside("sh", "-c", f"ls {place} 2>/dev/null; true") for host in rack.hosts] == [
        ""
    ] * 4

    first = program("patches", "sync", "--json", "-i", inventory)
    assert first.code == 0, first.out + first.err
    assert {row["changed"] for row in first.document["nodes"]} == {True}
    assert _found(rack, place) == [TEXT] * 4

    again = program("patches", "sync", "--json", "-i", inventory)
    assert {row["changed"] for row in again.document["nodes"]} == {False}

    rack.hosts[2].namespace.inside("sh", "-c", f"echo other > {place}/engine.py")
    mended = program("patches", "sync", "--json", "-i", inventory)
    assert [row["changed"] for row in mended.document["nodes"]] == [False, False, True, False]
    assert _found(rack, place) == [TEXT] * 4


def test_a_node_that_cannot_take_it_is_named(rack: Rack, patched: tuple[Program, str]) -> None:
    """The others have their files."""
    program, inventory = patched
    name = rack.hosts[1].name
    rack.hosts[1].namespace.inside("sh", "-c", f"rm -rf {FOLDER}; echo a file > {FOLDER}")
    try:
        ended = program("patches", "sync", "--json", "-i", inventory)
        assert ended.code == 1, ended.out + ended.err
        rows = {row["node"]: row for row in ended.document["nodes"]}
        assert [one for one, row in rows.items() if row["fault"]] == [name]
        assert FOLDER in rows[name]["fault"]
    finally:
        rack.hosts[1].namespace.inside("rm", "-f", FOLDER)


def test_a_set_is_shown_with_its_reasons(patched: tuple[Program, str], tmp_path: Path) -> None:
    """What it lays over the image and why; a file that is another than its hash is refused."""
    program, _ = patched
    shown = program("patches", "show", str(tmp_path / "set"))
    assert shown.code == 0, shown.err
    assert "the tests want it" in shown.out
    shutil.copy(tmp_path / "set" / "patch-set.yml", tmp_path / "set" / "engine.py")
    wrong = program("patches", "show", str(tmp_path / "set"))
    assert wrong.code == 2
    assert "engine.py: SHA-256" in wrong.err
