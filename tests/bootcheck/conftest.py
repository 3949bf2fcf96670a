"""Scenes: the healthy line with some probes of some nodes changed."""

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
from launcher.boot import context
from launcher.recipe import Recipe
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


@pytest.fixture
def scene(known: Context) -> Callable[..., Scene]:
    """Return a maker of scenes: the healthy line with some probes of some nodes changed, and some floors."""

    def make(patch: Mapping[str, Any], floors: Mapping[str, float] | None = None) -> Scene:
        nodes = {
            node.name: healthy.records(known, node, patch.get(node.name, {})) for node in known.line.nodes
        }
        judged = override(Floors(), floors or {}, "the scene")
        bundle = Bundle(context=known, nodes=nodes)
        return Scene(line=known.line, needs=known.needs, facts=facts(bundle), floors=judged)

    return make
