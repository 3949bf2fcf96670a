"""Scenes: the healthy line with some probes of some nodes changed."""

import dataclasses
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bootcheck.collect import facts
from bootcheck.facts import Bundle, Context
from bootcheck.floors import Floors, override
from bootcheck.gates.gate import Scene
from bootcheck.needs import ModelFile, Needs
from launcher.recipe import Recipe
from launcher.survey import context
from sparkctl import edge, inventory
from sparkctl.line import Line

ROOT = Path(__file__).parents[2]


def load_healthy() -> ModuleType:
    """Load healthy.py, which is no package's: pytest imports tests by path."""
    spec = importlib.util.spec_from_file_location("healthy", Path(__file__).parent / "healthy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["healthy"] = module
    spec.loader.exec_module(module)
    return module


healthy = load_healthy()


@pytest.fixture(scope="session")
def line() -> Line:
    """Line A of the example inventory."""
    return inventory.read(ROOT / "inventory.example.yml").line("A")


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    """The recipe of V4.1-Flash on four nodes."""
    return edge.read(ROOT / "recipes" / "v41-flash-exl3-tp4.yml", Recipe)


@pytest.fixture
def known(line: Line, recipe: Recipe) -> Context:
    """What a look at that line rests on."""
    return context(line, recipe, Floors(), "2026-11-29T12:00:00Z")


def asking(needs: Needs, changed: Mapping[str, Any]) -> Needs:
    """Return the recipe's needs with some changed; variables and arguments are added to a node's own."""
    told = dict(changed)
    for name in ("environments", "arguments"):
        own, more = getattr(needs, name), told.get(name, {})
        told[name] = {
            node: value | more.get(node, {}) if name == "environments" else (*value, *more.get(node, ()))
            for node, value in own.items()
        }
    told["files"] = {path: ModelFile(**one) for path, one in told.get("files", {}).items()}
    return dataclasses.replace(needs, **told)


@pytest.fixture
def scene(known: Context) -> Callable[..., Scene]:
    """Return a maker of scenes: the healthy line with some probes of some nodes changed, some floors and some needs."""

    def make(
        patch: Mapping[str, Any],
        floors: Mapping[str, float] | None = None,
        needs: Mapping[str, Any] | None = None,
    ) -> Scene:
        asked = dataclasses.replace(known, needs=asking(known.needs, needs or {}))
        nodes = {
            node.name: healthy.records(asked, node, patch.get(node.name, {})) for node in asked.line.nodes
        }
        judged = override(Floors(), floors or {}, "the scene")
        bundle = Bundle(context=asked, nodes=nodes)
        return Scene(line=asked.line, needs=asked.needs, facts=facts(bundle), floors=judged)

    return make
