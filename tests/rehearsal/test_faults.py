"""Fault scenarios: each is the healthy line with one thing wrong, says which, and who is to notice."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from bootcheck.gates import GATES, REACHABLE
from rehearsal import scenario
from rehearsal.scenario import Scenario, Section, Traits, named, scenarios

FOLDER = Path(scenario.__file__).parent / "scenarios"
FAULTS = [one for one in scenarios() if one.fault]
STAGES = {"launch", "ready", "status"}
KNOWN = {"", "bench", REACHABLE.name, *STAGES, *(gate.name for gate in GATES)}


@pytest.mark.parametrize("told", FAULTS, ids=lambda told: told.name)
def test_a_fault_is_the_healthy_line_with_one_thing_wrong(told: Scenario) -> None:
    """Weather, seed, pace and levers are those of healthy, though another recipe may be served; a node differs, and the line says which."""
    healthy = named("healthy")
    own = replace(told, name="healthy", about=healthy.about, section="", fault="", gate="", ends=0, nodes={})
    assert replace(own, recipe="") == healthy
    assert told.nodes
    assert all(traits != Traits() for traits in told.nodes.values())
    assert told.about == told.fault
    assert "\n" not in told.fault
    if len(told.nodes) == 1:
        assert next(iter(told.nodes)) in told.fault or told.section in {"guard", "bench"}


@pytest.mark.parametrize("told", FAULTS, ids=lambda told: told.name)
def test_a_fault_is_noticed_by_somebody_who_exists(told: Scenario) -> None:
    """The gate or stage that a scenario names is one of sparkctl's, and only a fault that is none needs nobody."""
    assert told.gate in KNOWN
    assert told.gate or told.ends == 0


def test_every_section_has_faults_and_every_folder_is_a_section() -> None:
    """Tests that boot one scenario of each section find one; scenarios without a fault belong to none."""
    sections = set(get_args(Section)) - {""}
    assert {one.section for one in FAULTS} == sections
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == sections
    assert {one.section for one in scenarios() if not one.fault} == {""}
    assert {"healthy", "calm"} <= {one.name for one in scenarios() if not one.fault}


def test_names_are_unique_and_those_of_their_files() -> None:
    """Two sections with a file of the same name would hide one of them."""
    paths = sorted(FOLDER.rglob("*.yml"))
    assert sorted(one.name for one in scenarios()) == sorted(path.stem for path in paths)
