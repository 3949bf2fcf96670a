"""A line of real vLLM on the CPU: hosts of network namespaces, a stand-in for docker that runs each rank's command line as it stands.

Run by `scripts/check --engine`, which installs the engine and makes the model. Without them the tests are skipped with the reason; where
CI asks for the engine that is a failure.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from rehearsal.hosts import Rack, obstacle, raised

HERE = Path(__file__).parent
PROGRAM = (sys.executable, "-c", "from sparkctl.cli import main; main()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine that `scripts/lib/engine.sh` made: its commands and the tiny model."""

    commands: Path
    model: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one call of sparkctl ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class RealLine:
    """A line of hosts and the recipe that it serves."""

    rack: Rack
    inventory: Path
    state: Path

    def __call__(self, *arguments: str, limit_s: float = 600) -> Ended:
        """Run sparkctl to its end."""
        ran = subprocess.run(
            self.argv(arguments),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            env=_environment(),
        )
        return Ended(code=ran.returncode, out=ran.stdout, err=ran.stderr)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start sparkctl and leave it running."""
        return subprocess.Popen(
            self.argv(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=_environment(),
        )

    def argv(self, arguments: tuple[str, ...]) -> list[str]:
        """Return the whole command."""
        return [*PROGRAM, *arguments, "-i", str(self.inventory), "--state", str(self.state)]

    def on(self, host: str, *argv: str) -> str:
        """Run a command on a host, in its own namespaces, and return what it printed."""
        return self.rack.host(host).namespace.inside(*argv)


def _environment() -> dict[str, str]:
    return os.environ | {"NO_COLOR": "1"}


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Return the real engine; without one the tests are skipped, and fail where it was asked for."""
    commands, model = os.environ.get("ENGINE", ""), os.environ.get("MODEL", "")
    why = obstacle() or ("" if commands and model else "no engine here: run scripts/check --engine")
    if why and os.environ.get("SPARKCTL_ENGINE") == "required":
        pytest.fail(f"the engine is required: {why}")
    if why:
        pytest.skip(why)
    return Engine(commands=Path(commands), model=Path(model))


@contextmanager
def raised_line(engine: Engine, home: Path, count: int) -> Iterator[RealLine]:
    """Raise hosts whose ranks run the real engine, with an inventory and the tiny recipe for them."""
    with raised(home / "rack", count, str(engine.commands)) as rack:
        text = (HERE / "tiny.yml").read_text(encoding="utf-8")
        recipe = home / "tiny.yml"
        recipe.write_text(
            text.replace("MODEL_FOLDER", str(engine.model)).replace("tensor: 2", f"tensor: {count}"),
            encoding="utf-8",
        )
        line = RealLine(rack=rack, inventory=rack.inventory(recipe=str(recipe)), state=home / "state")
        yield line
        line("down", limit_s=120)


@pytest.fixture(scope="module")
def two(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLine]:
    """Two hosts."""
    with raised_line(engine, tmp_path_factory.mktemp("two"), 2) as line:
        yield line


@pytest.fixture
def four(engine: Engine, tmp_path: Path) -> Iterator[RealLine]:
    """Four hosts."""
    with raised_line(engine, tmp_path, 4) as line:
        yield line


def ask(url: str, prompt: str) -> str:
    """Return what the line answers."""
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 96,
        "temperature": 0,
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120, trust_env=False)
    return str(answer.json()["choices"][0]["message"]["content"]).strip()
