"""A patch set under real vLLM: bound over a file of the engine, verified from inside, at work in every rank."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from .conftest import Engine, RealLine

pytestmark = [pytest.mark.engine, pytest.mark.full]

SAYS = "this module is the patch set's"


@pytest.fixture
def patched(engine: "Engine", two: "RealLine", tmp_path: Path) -> Path:
    """The tiny recipe with a set that makes the model's module say that it is patched."""
    (target,) = engine.commands.parent.glob(
        "lib/python3*/site-packages/vllm/model_executor/models/qwen3_moe.py"
    )
    text = target.read_text(encoding="utf-8") + f'\nlogger.info("{SAYS}")\n'
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "qwen3_moe.py").write_text(text, encoding="utf-8")
    patch = {
        "file": "qwen3_moe.py",
        "target": str(target),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "why": "the tests want to see it at work",
        "upstream": "none: for the tests",
    }
    manifest = {
        "schema": 1,
        "name": "says-so",
        "about": "one file",
        "engine": "vllm",
        "versions": ["0.32.0"],
        "folder": "/run/sparkctl-patches",
        "patches": [patch],
    }
    (folder / "patch-set.yml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    recipe = yaml.safe_load((two.state.parent / "tiny.yml").read_text(encoding="utf-8"))
    recipe["engine"]["patches"] = "set"
    path = tmp_path / "patched.yml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def test_a_patch_is_at_work_in_every_rank(two: "RealLine", patched: Path) -> None:
    """Missing files stop the boot before any launch; synced, every rank runs them and says so."""
    lacking = two("boot", "--json", "--again", "--recipe", str(patched))
    assert lacking.code == 1, lacking.out + lacking.err
    assert lacking.document["stage"] == "check"
    assert two("patches", "sync", "--recipe", str(patched)).code == 0
    ended = two("boot", "--json", "--again", "--recipe", str(patched))
    assert ended.code == 0, ended.out + ended.err
    for rank in two("status", "--json").document["ranks"]:
        assert SAYS in two.docker(rank["node"], "logs", rank["name"])
    assert two("down").code == 0

    other = two.rack.hosts[1]
    place = json.loads(two("patches", "show", str(patched.parent / "set"), "--json").out)["place"]
    two.on(other.name, "sh", "-c", f"echo '# other' >> {place}/qwen3_moe.py")
    uneven = two("boot", "--json", "--again", "--recipe", str(patched))
    assert uneven.code == 1, uneven.out + uneven.err
    assert uneven.document["stage"] == "check"
    assert uneven.document["node"] in {host.name for host in two.rack.hosts}
    assert "patch" in uneven.document["why"]
