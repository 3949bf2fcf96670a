"""A practice node's commands, answered within the test's own process: milliseconds where a command would take thirty."""

import contextlib
import importlib
import io
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from rehearsal import face, layout
from rehearsal.scenario import Scenario, Traits, named

from .conftest import Answer

MODEL = "/srv/models/DeepSeek-V4.1-Flash-EXL3"
SHARED = "/dev/shm"  # noqa: S108 - the node's shared memory, looked at in a practice node alone
IMAGE = "sparkctl/vllm-dsv41-exl3:0.33.0"
QUICK = 1e6
"""A pace at which no probe takes time."""


class Within:
    """The nodes of one cluster's home."""

    def __init__(self, home: Path, told: Scenario) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layout, "_write_commands", lambda _: None)  # nobody runs them here
            layout.furnish(home, replace(told, pace=QUICK), "no-token")

    def __call__(self, name: str, *arguments: str, node: str = "spark-a0") -> Answer:
        """Answer one command of a node; what it would hand to the machine's own tool is a fault here."""
        out, err = io.StringIO(), io.StringIO()
        module = importlib.import_module(f"rehearsal.faces.{face.MODULES[name]}")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = module.answer(self.home / node, name, list(arguments))
            except SystemExit as ended:
                code = int(str(ended.code))
        return Answer(code=code, out=out.getvalue(), err=err.getvalue())

    def as_root(self, name: str, *arguments: str, node: str = "spark-a0") -> Answer:
        """Answer one command as sudo would run it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SUDO_UID", "1000")
            return self(name, *arguments, node=node)

    def probe(self, name: str, *words: str, node: str = "spark-a0", options: tuple[str, ...] = ()) -> Answer:
        """Run a probe in the serving image."""
        asked = ("--rm", "--label", f"sparkctl.probe={name}", "--gpus", "all", *options)
        return self(
            "docker", "run", *asked, "--entrypoint", "python3", IMAGE, "-c", "SCRIPT", *words, node=node
        )


@cache
def _healthy() -> Scenario:
    return named("healthy")


def within(home: Path, traits: Traits | None = None, node: str = "spark-a0") -> Within:
    """Lay out a healthy cluster, or one in which a single node has these traits."""
    return Within(home, replace(_healthy(), nodes={node: traits} if traits else {}))


def everywhere(home: Path, traits: Traits) -> Within:
    """Lay out a cluster whose nodes all have these traits."""
    return Within(home, replace(_healthy(), nodes=dict.fromkeys(layout.NODES, traits)))
