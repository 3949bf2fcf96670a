"""The plug-in stands alone: it imports nothing of sparkctl, and nothing of sparkctl imports it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"sparkctl", "bootcheck", "launcher", "tuner", "ledger", "rehearsal", "proxy"}
PLUGIN = "sparkctl_vllm"


def imported(module: Path) -> set[str]:
    """The top-level names that a module imports."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    whole = [one.names for one in ast.walk(tree) if isinstance(one, ast.Import)]
    parts = [one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)]
    names = [name.name for names in whole for name in names] + parts
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("folder", [f"vllm_plugin/{PLUGIN}", *sorted(OURS)])
def test_neither_imports_the_other(folder: str) -> None:
    """Its modules name none of ours, and ours do not name it."""
    forbidden = OURS if PLUGIN in folder else {PLUGIN}
    modules = sorted((ROOT / folder).rglob("*.py"))
    found = {str(one.relative_to(ROOT)): imported(one) & forbidden for one in modules}
    assert {name: names for name, names in found.items() if names} == {}
