"""Roles and playbooks as such: every role is specified, every playbook is well formed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
ROLES = sorted(path for path in (PLAYBOOKS / "roles").iterdir() if path.is_dir())
BOOKS = sorted(PLAYBOOKS.glob("*.yml"))


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_every_role_specifies_each_of_its_entries(role: Path) -> None:
    """Each task file is an entry with a sentence, and its variables carry the role's name."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))[
        "argument_specs"
    ]
    assert set(specs) == {path.stem for path in (role / "tasks").glob("*.yml")}
    for spec in specs.values():
        assert spec["short_description"]
        assert all(name.startswith(f"{role.name}_") for name in spec["options"])


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_every_default_is_the_documented_one(role: Path) -> None:
    """Defaults stand in defaults/main.yml; the specification repeats them and no other."""
    path = role / "defaults" / "main.yml"
    defaults = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    told = {
        name: option["default"]
        for spec in specs["argument_specs"].values()
        for name, option in spec["options"].items()
        if "default" in option
    }
    assert told == defaults


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_every_role_says_what_it_is_for(role: Path) -> None:
    """A role's README has its name and a sentence."""
    title, sentence = (role / "README.md").read_text(encoding="utf-8").split("\n", 1)
    assert title == f"# {role.name}"
    assert sentence.strip().endswith(".")


@pytest.mark.parametrize("book", BOOKS, ids=lambda path: path.stem)
def test_every_playbook_passes_the_syntax_check(book: Path) -> None:
    """Ansible reads the playbook, its roles and its modules."""
    order = {"launch_order": ["localhost"], "stop_order": ["localhost"]}
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("--syntax-check", "-i", "localhost,", "-e", json.dumps(order), str(book)),
        ],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ENABLED": "host_list",
        },
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
