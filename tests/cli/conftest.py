"""Practice clusters for the verbs, and the program that is run on them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkctl.cli import run

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


@pytest.fixture
def called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Calls it in this process, on an empty state folder: what needs no node needs no second start of Python either."""
    monkeypatch.delenv("SPARKCTL_INVENTORY", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run([*arguments, "--state", str(tmp_path)])
        told = capsys.readouterr()
        return Ended(code, told.out, told.err)

    return call
