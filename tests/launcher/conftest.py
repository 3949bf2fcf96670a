"""The recipe that ships, its engine's facts, and the example line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bootcheck.collect import tables
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


@pytest.fixture(scope="session")
def healthy_probes() -> Callable[[Line, str], list[dict[str, Any]]]:
    """Return a maker of what spark_probe brings home from a healthy node."""
    cases = ROOT / "tests" / "bootcheck" / "cases"
    texts = {
        "memory": "memory/healthy",
        "kernel": "kernel/gb10",
        "gpu": "gpu/idle",
        "gpu-processes": "gpu-processes/none",
        "image": "image/present",
        "gemv": "gemv/fast",
    }
    stdout = {
        probe: json.loads((cases / f"{name}.json").read_text())["stdout"] for probe, name in texts.items()
    }

    def make(line: Line, name: str) -> list[dict[str, Any]]:
        node = next(node for node in line.nodes if node.name == name)
        links = [
            {
                "ifname": rail.interface,
                "mtu": 9000,
                "flags": ["LOWER_UP"],
                "addr_info": [{"local": rail.address}],
            }
            for rail in node.rails
        ]
        ping = "2 packets transmitted, 2 received, 0% packet loss"
        said = {**stdout, "links": json.dumps(links), "jumbo-ping": ping, "containers": ""}
        return [
            {
                **{key: row[key] for key in ("probe", "argv")},
                "rc": 0,
                "stdout": said[str(row["probe"])],
                "stderr": "",
                "seconds": 0.1,
            }
            for row in tables(line, "image", 9000)[name]
        ]

    return make
