"""A line of real vLLM on the CPU: hosts of network namespaces, a stand-in for docker that runs each rank's command line as it stands.

Run by `scripts/check --engine`, which installs the engine and makes the model. Without them the tests are skipped with the reason; where
CI asks for the engine that is a failure.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from rehearsal.hosts import Rack, obstacle, raised

from ..program import Ended, Program

HERE = Path(__file__).parent

LESSONS = [
    {"prompt": one["prompt"], "reply": one["reply"].strip()}
    for one in json.loads((HERE / "lessons.json").read_text(encoding="utf-8"))
]
"""What the tiny model was taught."""

_SHARED = "/dev/shm"  # noqa: S108 - a folder to look into, not a file of ours
_ENGINE = re.compile("vllm|raylet|gcs_server", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engine that `scripts/lib/engine.sh` made: its commands and the tiny model."""

    commands: Path
    model: Path


@dataclass(frozen=True, slots=True)
class RealLine(Program):
    """The program on a line of hosts."""

    rack: Rack
    inventory: Path

    def __call__(self, *arguments: str, limit_s: float = 600) -> Ended:
        """Run to the end; a real engine takes minutes to boot."""
        return Program.__call__(self, *arguments, limit_s=limit_s)

    def given(self, arguments: Sequence[str]) -> list[str]:
        """Return the whole command, with the line's inventory."""
        # Not super(): a dataclass with slots is made anew, and a bare super() would not know it.
        return Program.given(self, (*arguments, "-i", str(self.inventory)))

    def docker(self, host: str, *argv: str) -> str:
        """Run docker on a host and return what it printed."""
        return self.on(host, str(self.rack.host(host).folder / "bin" / "docker"), *argv)

    def containers(self, host: str) -> list[dict[str, Any]]:
        """Return every container of a host, running or not."""
        listed = self.docker(host, "ps", "-a", "--no-trunc", "--format", "{{json .}}")
        return [json.loads(row) for row in listed.splitlines()]

    def processes(self, host: str) -> list[tuple[int, str]]:
        """Return pid and command line of everything on a host that belongs to the engine or to Ray."""
        rows = (row.split(maxsplit=1) for row in self.on(host, "ps", "-eo", "pid=,args=").splitlines())
        return [(int(pid), text) for pid, text in rows if _ENGINE.search(text) and "ps -eo" not in text]

    def left(self) -> list[object]:
        """Return what is left of the line on its hosts: containers, processes, listeners and shared memory."""
        found: list[object] = []
        for host in self.rack.hosts:
            found += [(host.name, one) for one in self.containers(host.name)]
            found += [(host.name, one) for one in self.processes(host.name)]
            listening = self.on(host.name, "ss", "-ltnH").splitlines()
            found += [(host.name, row) for row in listening if ":8000 " in row or ":29501 " in row]
            found += [(host.name, name) for name in self.on(host.name, "ls", _SHARED).split()]
        return found

    def answers(self, *of_line: str) -> list[dict[str, str]]:
        """Ask a line what the model was taught and return its answers as lessons."""
        url = self("status", "--json", *of_line).document["url"]
        return [{"prompt": one["prompt"], "reply": _ask(url, one["prompt"])} for one in LESSONS]

    def on(self, host: str, *argv: str) -> str:
        """Run a command on a host, in its own namespaces, and return what it printed."""
        return self.rack.host(host).namespace.inside(*argv)


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
        for name in sorted(yaml.safe_load(line.inventory.read_text(encoding="utf-8"))["all"]["children"]):
            line("down", "--line", name.removeprefix("line_").upper(), limit_s=120)


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


def _ask(url: str, prompt: str) -> str:
    """Return what the line answers."""
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 96,
        "temperature": 0,
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120, trust_env=False)
    return str(answer.json()["choices"][0]["message"]["content"]).strip()
