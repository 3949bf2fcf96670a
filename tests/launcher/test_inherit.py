"""A recipe that says only how it differs: what is taken over, what goes, and what must be its own."""

from pathlib import Path

import pytest

from launcher.inherit import merged
from sparkctl.cli.served import read_recipe, whole
from sparkctl.errors import FileFault

BASE = {
    "schema": 1,
    "name": "base",
    "sources": ["x"],
    "args": {"a": 1, "b": {"c": 2, "d": 3}},
    "ulimits": [1, 2],
}


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({}, {"schema": 1, "args": {"a": 1, "b": {"c": 2, "d": 3}}, "ulimits": [1, 2]}),
        (
            {"args": {"b": {"c": 9}}},
            {"schema": 1, "args": {"a": 1, "b": {"c": 9, "d": 3}}, "ulimits": [1, 2]},
        ),
        ({"args": {"a": None}}, {"schema": 1, "args": {"b": {"c": 2, "d": 3}}, "ulimits": [1, 2]}),
        ({"args": None, "ulimits": [3]}, {"schema": 1, "ulimits": [3]}),
        (
            {"base": "base", "name": "own", "args": {"b": 0}},
            {"schema": 1, "name": "own", "args": {"a": 1, "b": 0}, "ulimits": [1, 2]},
        ),
    ],
)
def test_mappings_merge_and_null_takes_away(own: dict[str, object], wanted: dict[str, object]) -> None:
    """Mappings key by key, everything else as a whole; name and sources never come from the base."""
    assert merged(BASE, own) == wanted
    assert BASE["args"] == {"a": 1, "b": {"c": 2, "d": 3}}


def test_a_recipe_cannot_be_its_own_base(tmp_path: Path) -> None:
    """Two that name each other are told as such, not followed for ever."""
    (tmp_path / "one.yml").write_text("base: two.yml\n")
    (tmp_path / "two.yml").write_text("base: ./one.yml\n")
    with pytest.raises(FileFault, match="its own base"):
        whole(tmp_path / "one.yml")


def test_what_is_missing_in_a_derived_recipe_is_named(tmp_path: Path) -> None:
    """A derived recipe without a name of its own is told which key it lacks."""
    path = tmp_path / "own.yml"
    path.write_text("base: any-model\nabout: mine\nsources: [me]\n")
    with pytest.raises(FileFault, match="name"):
        read_recipe(str(path))
