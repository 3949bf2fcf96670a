"""The documents keep up with the program: the README's block, the verbs they name, the links they follow."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.command import rank_commands
from sparkctl import inventory
from sparkctl.cli import VERBS, run
from sparkctl.cli.served import read_recipe

ROOT = Path(__file__).parents[1]
OURS = {"--name", "--label", "--entrypoint"}
"""Options of docker that only name the container and what runs in it."""

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_readmes_block_is_rendered_from_the_demos_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`report --check` accepts the README against the ledger in docs/demo, whose chain is whole."""
    (tmp_path / "ledger.jsonl").write_bytes((ROOT / "docs" / "demo" / "ledger.jsonl").read_bytes())
    assert run(["ledger", "verify", "--state", str(tmp_path)]) == 0
    assert run(["report", "--check", "--readme", str(ROOT / "README.md"), "--state", str(tmp_path)]) == 0
    assert "up to date" in capsys.readouterr().out


def test_the_list_of_modules_is_current() -> None:
    """docs/architecture.md has the first sentence of every module."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "architecture"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_the_table_of_field_cases_is_current() -> None:
    """docs/field.md has every case under tests/field/cases, with what must come out."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "field"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_the_command_reference_is_current() -> None:
    """docs/commands.md and docs/man have every verb, argument and option as the command line has them."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "commands"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_index_of_messages_is_current() -> None:
    """docs/troubleshooting.md has every message that the code raises an error with, and a remedy for nearly all."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "messages"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here to format a manual page")
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "man").glob("*.1")), ids=lambda page: page.stem)
def test_a_manual_page_is_formatted_without_a_warning(page: Path) -> None:
    """Groff takes it as it is, and what it prints names the verb and the exit codes."""
    ran = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c", str(page)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    plain = re.sub(".\x08", "", ran.stdout)  # bold is struck twice
    assert page.stem in plain
    assert "EXIT STATUS" in plain


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_verbs_and_files_that_exist(page: Path) -> None:
    """Every `sparkctl <verb>` of a page is a verb, and every relative link leads to a file."""
    text = page.read_text()
    known = {verb.name for verb in VERBS}
    named = set(re.findall(r"(?:`|\$ |^    )sparkctl ([a-z]+)", text, re.MULTILINE))
    assert named <= known
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (page.parent / target).exists(), f"{target} is not there"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_options_that_exist(page: Path) -> None:
    """Every option of a `sparkctl <verb>` of a page is one of that verb's."""
    reference = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    common, *sections = re.split(r"^## sparkctl ", reference, flags=re.MULTILINE)
    options = {verb.name: set(re.findall(r"--[a-z0-9-]+", common)) | {"--help"} for verb in VERBS}
    for section in sections:
        options[section.split()[0]] |= set(re.findall(r"--[a-z0-9-]+", section))
    shown = re.findall(r"(?:`|\$ |^    )sparkctl ([a-z]+)([^`\n#]*)", page.read_text(), re.MULTILINE)
    for verb, rest in shown:
        assert set(re.findall(r"(?<!\S)--[a-z0-9-]+", rest)) <= options[verb], f"sparkctl {verb}{rest}"


def test_the_readme_shows_every_verb() -> None:
    """A verb that the README does not name would not be found."""
    text = (ROOT / "README.md").read_text()
    assert all(f"`{verb.name}" in text for verb in VERBS)


def test_every_setting_of_the_recipe_is_compared_with_the_published_launch() -> None:
    """docs/recipes.md names every flag, variable and docker option that the recipe's ranks start with."""
    recipe, _ = read_recipe("v41-flash-exl3-tp4")
    line = inventory.read(ROOT / "inventory.example.yml").line("A")
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    argv = rank_commands(recipe, line, "boot-1")[1].argv
    names = {*recipe.environment, *(word for word in argv if word.startswith("--") and word not in OURS)}
    assert [name for name in sorted(names) if name not in page] == []
    listed = {path.stem for path in (ROOT / "recipes").glob("*.yml")}
    assert [name for name in sorted(listed) if f"`{name}`" not in page] == []
