"""Recipes of others: what becomes of each piece, and that the result is a recipe of ours."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launcher import foreign
from launcher.recipe import EngineFacts
from sparkctl import edge
from sparkctl.cli.served import read_recipe
from sparkctl.errors import UsageFault

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "foreign").glob("*.yml"))
FACTS = edge.read(ROOT / "recipes" / "engines" / "vllm-0.33.0.yml", EngineFacts)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_foreign_recipe_becomes_ours(path: Path, tmp_path: Path) -> None:
    """Every key goes to its place or is told; the result is taken as any recipe is."""
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    made = foreign.read(case["given"], FACTS, path.stem)
    assert made.recipe == case["recipe"]
    assert list(made.left) == case["left"]
    own = tmp_path / "own.yml"
    own.write_text(yaml.safe_dump(made.recipe))
    recipe, _ = read_recipe(str(own))
    assert recipe.name == case["recipe"]["name"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"model": "m", "runtime": "sglang"}, "runtime sglang; sparkctl serves vLLM"),
        ({"name": "x"}, "no key model"),
    ],
)
def test_what_is_no_recipe_for_vllm_is_refused(document: dict[str, str], said: str) -> None:
    """Another engine's recipe, and a file that is none."""
    with pytest.raises(UsageFault, match=said):
        foreign.read(document, FACTS, "x.yml")


@given(st.text(max_size=60))
def test_any_command_is_read_or_told(command: str) -> None:
    """Whatever stands in a command: a recipe comes out, or the fault says what is wrong with it."""
    try:
        made = foreign.read({"model": "maker/m", "command": f"vllm serve m {command}"}, FACTS, "x.yml")
    except UsageFault:
        return
    assert made.recipe["model"]["path"] == "/models/m"
