"""Real vLLM over real Ray: `ray start` on both hosts, then the engine on the head; decision 0006 says what stands in for a GPU."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from .conftest import HERE, LESSONS

if TYPE_CHECKING:
    from .conftest import Engine, RealLine

pytestmark = [pytest.mark.engine, pytest.mark.full]


@pytest.fixture
def over_ray(two: "RealLine", tmp_path: Path) -> Path:
    """The tiny recipe over Ray; the backend and what the CPU build lacks for it are all that differs."""
    recipe = yaml.safe_load((two.state.parent / "tiny.yml").read_text(encoding="utf-8"))
    recipe["parallel"]["backend"] = "ray"
    recipe["container"]["mounts"][str(HERE / "ray_on_cpu")] = "/plugins:ro"
    recipe["env"]["PYTHONPATH"] = "/plugins"
    path = tmp_path / "ray.yml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def test_ranks_meet_over_ray(engine: "Engine", two: "RealLine", over_ray: Path) -> None:
    """The line answers word for word, nobody without its token gets at Ray, a lost node is seen, and nothing is left."""
    ended = two("boot", "--json", "--again", "--recipe", str(over_ray))
    assert ended.code == 0, ended.out + ended.err
    status = two("status", "--json")
    assert status.code == 0, status.out
    assert two.answers() == LESSONS
    worker = status.document["ranks"][1]
    address = f"{two.rack.hosts[0].peer.rails[0].address}:29501"
    asked = two.on(
        worker["node"], "sh", "-c", f"timeout 15 {engine.commands}/ray status --address={address} 2>&1; true"
    )
    assert "token" in asked, asked
    two.docker(worker["node"], "kill", worker["name"])
    seen = two("status", "--json")
    assert (seen.code, seen.document["state"]) == (1, "broken")
    assert worker["node"] in seen.document["note"]
    assert two("down").code == 0
    assert two.left() == []


def test_the_cpu_build_itself_says_why_it_needs_the_stand_in(two: "RealLine") -> None:
    """Without it the real engine finds the Ray that was made for it, and refuses in its own words, which reach the user."""
    ended = two("boot", "--json", "--again", "--set", "parallel.backend=ray")
    assert ended.code == 1, ended.out + ended.err
    log = "\n".join(ended.document["log"])
    assert "does not support ray" in ended.document["why"] + log, ended.out
    assert two.left() == []
