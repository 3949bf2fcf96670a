"""Hosts of real network namespaces, and what is read from them through real Ansible.

Skipped with the reason where the machine cannot carry them; under CI=true that is a failure.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bootcheck import collect, gates
from bootcheck.facts import Bundle
from bootcheck.findings import Finding
from bootcheck.floors import Floors
from bootcheck.probes import table as probes
from launcher import survey
from launcher.recipe import Recipe
from rehearsal.hosts import Rack, obstacle, raised
from sparkctl import edge, inventory

ROOT = Path(__file__).parents[2]
NOW = "2026-11-29T12:00:00Z"

Look = Callable[..., Bundle]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: Ansible on four hosts wants the machine for itself."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def machine() -> None:
    """Let the tests run where the machine can carry hosts."""
    why = obstacle()
    if why and os.environ.get("CI") == "true":
        pytest.fail(f"the hosts are required in CI: {why}")
    if why:
        pytest.skip(f"no hosts here: {why}")


@pytest.fixture(scope="session")
def rack(machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    """Four healthy hosts; a test puts back what it changes."""
    del machine
    with raised(tmp_path_factory.mktemp("rack"), 4) as four:
        yield four


@pytest.fixture(scope="session")
def look() -> Look:
    """Return what reads some probes from the hosts of an inventory, all at once, as `sparkctl check` does."""

    def read(path: Path, *names: str) -> Bundle:
        line = inventory.read(path).line(None)
        recipe = edge.read(ROOT / "recipes" / "v41-flash-exl3-tp4.yml", Recipe)
        others = frozenset(probe.name for probe in probes.PROBES) - set(names)
        return collect.collect(survey.context(line, recipe, Floors(), NOW, others))

    return read


def findings(bundle: Bundle, gate: str) -> dict[str, Finding]:
    """Return what one gate says of each host."""
    return {one.node: one for one in gates.judge(survey.scene(bundle)) if one.gate == gate}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How one `sparkctl check` ended."""

    code: int
    document: Any

    @property
    def findings(self) -> list[dict[str, str]]:
        """Every finding of the JSON document."""
        return list(self.document["findings"])


def check(path: Path, state: Path, *, limit_s: float) -> Checked:
    """Run the command line as a user calls it, without the probes that load a node."""
    ran = subprocess.run(
        [
            *(sys.executable, "-c", "from sparkctl.cli import main; main()", "check", "--quick", "--json"),
            *("-i", str(path), "--state", str(state)),
        ],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert ran.stdout, ran.stderr
    return Checked(code=ran.returncode, document=json.loads(ran.stdout))
