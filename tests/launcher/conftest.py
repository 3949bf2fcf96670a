"""The recipe that ships, its engine's facts, and the example line."""

import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bootcheck.floors import Floors
from launcher.recipe import EngineFacts, Recipe
from launcher.survey import context
from sparkctl import edge, inventory
from sparkctl.line import Line

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def line() -> Line:
    """Line A of the example inventory."""
    return inventory.read(ROOT / "inventory.example.yml").line("A")


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    """The recipe of V4.1-Flash on four nodes."""
    return edge.read(ROOT / "recipes" / "v41-flash-exl3-tp4.yml", Recipe)


@pytest.fixture(scope="session")
def engine() -> EngineFacts:
    """What vLLM 0.33.0 accepts."""
    return edge.read(ROOT / "recipes" / "engines" / "vllm-0.33.0.yml", EngineFacts)


@pytest.fixture(scope="session")
def healthy_probes(recipe: Recipe) -> Callable[[Line, str], list[dict[str, Any]]]:
    """Return a maker of what spark_probe brings home from a healthy node."""
    spec = importlib.util.spec_from_file_location("healthy", ROOT / "tests" / "bootcheck" / "healthy.py")
    assert spec is not None
    assert spec.loader is not None
    healthy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(healthy)

    def make(line: Line, name: str) -> list[dict[str, Any]]:
        known = context(line, recipe, Floors(), "2026-11-29T12:00:00Z")
        node = next(node for node in line.nodes if node.name == name)
        return [dataclasses.asdict(one) for one in healthy.records(known, node, {}).probes]

    return make
