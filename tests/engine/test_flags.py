"""The flags that recipes may give, against the parser of the vLLM that is installed for these tests."""

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from launcher.recipe import EngineFacts
from sparkctl import content, edge
from sparkctl.cli.served import read_recipe

if TYPE_CHECKING:
    from .conftest import Engine

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
INSTALLED = "vllm-0.32.0"

# Flags whose values are secrets are no business of a recipe; the rest of these are not of the engine.
OURS = {"allow-credentials", "api-key", "hf-token", "config", "help"}

_LIST = """
import json
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = ServeSubcommand().subparser_init(FlexibleArgumentParser().add_subparsers())
names = {name[2:] for action in parser._actions for name in action.option_strings if name.startswith("--")}
print(json.dumps(sorted(name for name in names if not name.startswith("no-"))))
"""


@pytest.fixture(scope="module")
def parsed(engine: "Engine") -> set[str]:
    """Every flag that the installed engine's own parser knows."""
    ran = subprocess.run(
        [str(engine.commands / "python"), "-c", _LIST],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_the_facts_of_this_version_are_its_parsers(parsed: set[str]) -> None:
    """recipes/engines lists what the parser lists, no more and no less."""
    facts = edge.read(content.engines()[INSTALLED], EngineFacts)
    assert facts.version == "0.32.0"
    dashed = {name for name in parsed if "_" not in name and "." not in name}
    assert set(facts.flags) == dashed - OURS


@pytest.mark.parametrize("name", content.recipes())
def test_every_flag_of_a_recipe_is_known_to_it(parsed: set[str], name: str) -> None:
    """What a recipe gives outside of `fork` an engine of the release before knows too."""
    recipe, _ = read_recipe(name)
    assert sorted(set(recipe.args) - parsed) == []
