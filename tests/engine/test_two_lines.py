"""Two lines of real vLLM on one inventory, side by side: nodes, ports, names and ledger rows of their own."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from .conftest import LESSONS

if TYPE_CHECKING:
    from .conftest import RealLine

pytestmark = [pytest.mark.engine, pytest.mark.full]


def _split(inventory: Path, recipe: Path) -> None:
    """Make two lines of two hosts each out of one line of four, the second with other ports."""
    tree = yaml.safe_load(inventory.read_text(encoding="utf-8"))
    hosts = list(tree["all"]["children"]["line_a"]["hosts"].items())
    ports = {"a": (8000, 29501), "b": (8001, 29601)}
    tree["all"]["children"] = {
        f"line_{name}": {
            "vars": {"recipe": str(recipe), "api_port": ports[name][0], "master_port": ports[name][1]},
            "hosts": {
                host: {**told, "rank": rank} for rank, (host, told) in enumerate(hosts[first : first + 2])
            },
        }
        for name, first in (("a", 0), ("b", 2))
    }
    inventory.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")


def test_two_lines_boot_serve_and_go_down_side_by_side(four: "RealLine") -> None:
    """Both boot at once and answer alike; taking one down leaves the other serving."""
    recipe = four.state.parent / "tiny.yml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("tensor: 4", "tensor: 2"), encoding="utf-8")
    _split(four.inventory, recipe)
    booting = {name: four.start("boot", "--line", name, "--json") for name in "AB"}
    told = {name: one.communicate(timeout=900) for name, one in booting.items()}
    assert {name: one.returncode for name, one in booting.items()} == {"A": 0, "B": 0}, told
    names = [one["name"] for one in four("status", "--line", "B", "--json").document["ranks"]]
    assert names == ["sparkctl-b-rank0", "sparkctl-b-rank1"]
    for name in "AB":
        assert four.answers("--line", name) == LESSONS
    assert four("down", "--line", "A").code == 0
    assert four("status", "--line", "A", "--json").document["state"] == "down"
    assert four("status", "--line", "B", "--canary", "--json").code == 0
    assert four("down", "--line", "B").code == 0
    assert four("ledger", "verify").code == 0
    assert four.left() == []
