"""What is wrong with a recipe, an inventory or a node, told by a real line: the rank, the cause, the remedy, and nothing left."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from .conftest import Engine, RealLine

pytestmark = pytest.mark.engine


def _recipe(line: "RealLine", path: Path, **changes: dict[str, Any]) -> str:
    """Write the tiny recipe with some sections changed and return its path."""
    recipe = yaml.safe_load((line.state.parent / "tiny.yml").read_text(encoding="utf-8"))
    for section, values in changes.items():
        recipe[section] |= values
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return str(path)


def test_a_recipe_for_another_version_is_told_by_the_ranks_own_logs(two: "RealLine", tmp_path: Path) -> None:
    """The line would serve; what it serves with is not what the recipe was written for."""
    recipe = _recipe(two, tmp_path / "newer.yml", engine={"version": "0.33.0"})
    ended = two("boot", "--json", "--again", "--recipe", recipe)
    assert ended.code == 1, ended.out + ended.err
    assert ended.document["why"].startswith("its log says version 0.32.0")
    assert "wanted 0.33.0" in ended.document["why"]
    assert "engine.version" in ended.document["hint"]
    assert two.left() == []


def test_a_model_that_one_node_lacks_is_named_before_any_launch(engine: "Engine", two: "RealLine") -> None:
    """On that node the folder is there and empty, as a mount that failed leaves it."""
    worker = two.rack.hosts[1].name
    two.on(worker, "mount", "-t", "tmpfs", "tmpfs", str(engine.model))
    try:
        ended = two("boot", "--json", "--again")
    finally:
        two.on(worker, "umount", str(engine.model))
    assert ended.code == 1, ended.out + ended.err
    assert (ended.document["stage"], ended.document["node"]) == ("check", worker)
    assert "model" in ended.document["why"]
    assert ended.document["hint"]
    assert two.left() == []


def test_a_head_address_that_nobody_has_is_named_before_any_launch(two: "RealLine") -> None:
    """Ranks would wait for it until they give up."""
    head = two.rack.hosts[0]
    entry = yaml.safe_load(two.inventory.read_text(encoding="utf-8"))["all"]["children"]["line_a"]["hosts"]
    rails = [{**entry[head.name]["fabric"][0], "address": "10.78.1.99"}, *entry[head.name]["fabric"][1:]]
    wrong = two.rack.inventory(
        "wrong-head", changes={head.name: {"fabric": rails}}, recipe=str(two.state.parent / "tiny.yml")
    )
    ended = type(two)(rack=two.rack, inventory=wrong, state=two.state)("boot", "--json", "--again")
    assert ended.code == 1, ended.out + ended.err
    assert ended.document["stage"] == "check"
    assert "10.78.1.99" in ended.document["why"]
    assert ended.document["hint"]
    assert two.left() == []


def test_a_recipe_for_another_number_of_nodes_is_refused(two: "RealLine", tmp_path: Path) -> None:
    """Nothing is asked of the nodes for it."""
    recipe = _recipe(two, tmp_path / "four.yml", parallel={"tensor": 4})
    ended = two("boot", "--again", "--recipe", recipe)
    assert ended.code == 1
    assert "4" in ended.err
    assert "2" in ended.err
    assert "\nhint: " in ended.err
