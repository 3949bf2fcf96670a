"""The wheel: what is installed elsewhere finds its playbooks and recipes, and starts."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCATED = """
import json
from sparkctl import content
print(json.dumps({
    "root": str(content.root()),
    "playbooks": sorted(path.name for path in (content.root() / "playbooks").iterdir()),
    "recipes": sorted(path.name for path in (content.root() / "recipes").iterdir()),
    "images": list(content.images()),
    "example": (content.root() / "inventory.example.yml").is_file(),
}))
"""


def call(*argv: str, cwd: Path = Path("/"), env: Mapping[str, str] | None = None) -> str:
    """Run a command and return its stdout; its stderr is the assertion's text when it fails."""
    done = subprocess.run(
        argv, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    call(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check"),
        # With the build backend at hand pip need not fetch one.
        *(["--no-build-isolation"] if find_spec("hatchling") else []),
        *("--wheel-dir", str(folder), str(ROOT)),
    )
    (built,) = folder.glob("*.whl")
    return built


def new_environment(folder: Path) -> Path:
    """Make an empty environment and return its Python."""
    call(sys.executable, "-m", "venv", str(folder))
    return folder / "bin" / "python"


def borrow(python: Path) -> None:
    """Let an environment see the dependencies of this one, but not its editable sparkctl.

    Packages are found through one path file; path files inside the borrowed folder are not read, and it is one of
    those that makes the checkout importable.
    """
    purelib = Path(call(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (purelib / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")


def check_installed(python: Path, wheel: Path) -> None:
    """Whatever the folder and the PATH, the installed package finds its content and its command starts."""
    call(
        *(str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"),
        *("--disable-pip-version-check", str(wheel)),
    )
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    found = json.loads(call(str(python), "-c", LOCATED, env=env))
    assert found["root"].startswith(str(python.parents[1]))
    assert {"ansible.cfg", "boot.yml", "library", "module_utils", "roles"} <= set(found["playbooks"])
    assert {"ladders", "prompts"} <= set(found["recipes"])
    assert found["images"] == sorted(path.name for path in (ROOT / "images").iterdir())
    assert found["example"] is True
    assert "Usage" in call(str(python.with_name("sparkctl")), "--help", env=env)


def test_the_wheel_holds_what_the_product_needs(wheel: Path) -> None:
    """Every package, every playbook and every image file is in the wheel; tests and caches are not."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"sparkctl", "bootcheck", "launcher", "tuner", "ledger", "proxy", "rehearsal"}
    wanted = {
        f"sparkctl/_content/{path.relative_to(ROOT)}"
        for folder in ("playbooks", "images")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= set(names)
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []


def test_an_installed_wheel_works_from_anywhere(wheel: Path, tmp_path: Path) -> None:
    """Beside borrowed dependencies the wheel's own copy is what runs."""
    python = new_environment(tmp_path / "venv")
    borrow(python)
    check_installed(python, wheel)


@pytest.mark.full
def test_an_installed_wheel_works_with_its_own_dependencies(wheel: Path, tmp_path: Path) -> None:
    """With nothing but what its metadata asks for, the wheel runs: no dependency is forgotten."""
    python = new_environment(tmp_path / "venv")
    call(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    check_installed(python, wheel)
