"""The shape of the tree: who may import whom, and how long a module may be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 300  # the habit is 250; beyond 300 a module needs an entry and a reason here
LONG: dict[str, str] = {}
FOLDERS = (
    *("sparkctl", "bootcheck", "launcher", "tuner", "ledger", "rehearsal", "proxy"),
    *("vllm_plugin", "playbooks", "benchmarks"),
)
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def test_imports_keep_the_contracts() -> None:
    """Every import-linter contract in pyproject.toml is kept, indirect imports included."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_stay_short(module: Path) -> None:
    """A module above 300 lines is split, or stands in the list above with its reason."""
    lines = len(module.read_text(encoding="utf-8").splitlines())
    name = str(module.relative_to(ROOT))
    assert lines <= MOST_LINES or LONG.get(name), f"{name} has {lines} lines, wanted at most {MOST_LINES}"


def test_the_list_of_long_modules_is_not_stale() -> None:
    """A module that became short leaves the list."""
    assert [name for name in LONG if _lines(ROOT / name) <= MOST_LINES] == []


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
