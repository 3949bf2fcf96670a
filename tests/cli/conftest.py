"""Practice clusters for the verbs, and the program that is run on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..program import PROGRAM, Ended, Program

__all__ = ["PROGRAM", "Ended", "Program"]


@pytest.fixture(scope="module")
def practice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A program with a healthy practice cluster, which is taken down with the module, whatever happened."""
    program = Program(tmp_path_factory.mktemp("state"))
    raised = program("rehearse", "up")
    assert raised.code == 0, raised.err
    yield program
    ended = program("rehearse", "down")
    assert ended.code == 0, ended.err


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program with an empty state folder and no cluster."""
    return Program(tmp_path)
