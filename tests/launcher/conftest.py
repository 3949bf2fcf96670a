"""The recipe that ships, its engine's facts, and the example line."""

from pathlib import Path

import pytest

from launcher.recipe import EngineFacts, Recipe
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
