"""The image that ships, really built: its own Containerfile by its own playbook, on a base whose tools only write down.

No image registry is reachable where tests run, and no GB10. So this proves the order of the steps, the hashes and the labels; it
proves nothing of what pip, nvcc or vLLM would do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from launcher.images import building, inputs
from launcher.images.building import Job
from sparkctl.cli.image_files import read_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Node, Play

STAND_IN = Path(__file__).parent / "stand_in"
TOOLS = ("apt-get", "dpkg-query", "git", "nvcc", "python3")
BASE = """FROM scratch
COPY root/ /
ENV PATH=/usr/bin:/bin
"""
IMAGE = "sparkctl/vllm-dsv41-exl3:0.33.0"


def obstacle() -> str:
    """Say why no image can be built here; empty when one can."""
    if os.geteuid() != 0:
        return "not root: buildah without it needs subordinate ids"
    missing = [name for name in ("buildah", "busybox") if not shutil.which(name)]
    return (
        f"{' and '.join(missing)} not found; install the Debian packages buildah and busybox-static"
        if missing
        else ""
    )


@pytest.fixture(scope="module")
def machine() -> None:
    """Let the test run where an image can be built."""
    why = obstacle()
    if why and os.environ.get("CI") == "true":
        pytest.fail(f"the build on a stand-in base is required in CI: {why}")
    if why:
        pytest.skip(f"no build here: {why}")


@dataclass(frozen=True, slots=True)
class Store:
    """Where buildah keeps the images of one test, with the stand-in base among them."""

    folder: Path
    base: str

    def buildah(self, *words: str) -> str:
        """Run buildah on this store and return what it says."""
        where = (
            "--root",
            str(self.folder / "root"),
            "--runroot",
            str(self.folder / "run"),
            "--storage-driver",
            "vfs",
        )
        ran = subprocess.run(["buildah", *where, *words], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def inside(self, image: str, path: str) -> str:
        """Return a file of an image."""
        name = self.buildah("from", "--pull-never", image).strip()
        return self.buildah("run", "--isolation", "chroot", name, "cat", path)


@pytest.fixture
def store(machine: None, tmp_path: Path, nodes: tuple[Node, ...]) -> Iterator[Store]:
    """Make the base: busybox, and a recorder under the name of every tool that the build calls."""
    del machine
    root = tmp_path / "base" / "root"
    for folder in ("bin", "usr/bin", "tmp", "opt", "var/lib/apt/lists"):
        (root / folder).mkdir(parents=True)
    shutil.copy(str(shutil.which("busybox")), root / "bin" / "busybox")
    for applet in ("sh", "cat", "cp", "mkdir", "rm", "sha256sum", "sort", "grep", "env"):
        (root / "bin" / applet).symlink_to("busybox")
    for tool in TOOLS:
        shutil.copy(STAND_IN / "recorder", root / "usr" / "bin" / tool)
    (tmp_path / "base" / "Containerfile").write_text(BASE, encoding="utf-8")
    node = nodes[0]
    empty = Store(node.bin / "store", "")
    empty.buildah(
        "bud", "--isolation", "chroot", "--platform", "linux/arm64", "-t", "stand-in", str(tmp_path / "base")
    )
    shutil.copy(STAND_IN / "docker", node.bin / "docker")
    digest = json.loads(empty.buildah("inspect", "--type", "image", "stand-in"))["FromImageDigest"]
    yield Store(empty.folder, f"localhost/stand-in@{digest}")
    empty.buildah("rm", "--all")
    empty.buildah("rmi", "--all", "--force")


def test_the_image_that_ships_is_built_in_order_from_what_its_label_says(play: Play, store: Store) -> None:
    """Every step runs once, in the order of the file, with the manifest's values and the lock whose hash is in the label."""
    files = read_files("vllm-dsv41-exl3")
    made = inputs.gather(files.manifest, files.texts, store.base)
    told = building.variables(Job(manifest=files.manifest, inputs=made, texts=files.texts, node="spark-a0"))
    told["build"]["space_bytes"] = 1  # type: ignore[index]  # it is the machine's own disk here
    first = play("image_build", told)
    assert (first.rc, first.changed()) == (0, 1), first.text
    wanted = (STAND_IN / "record.txt").read_text(encoding="utf-8")
    requirements = made.files["requirements.txt"]
    assert store.inside(IMAGE, "/record") == wanted.format(requirements=requirements, **made.arguments)
    config: dict[str, Any] = json.loads(
        json.loads(store.buildah("inspect", "--type", "image", IMAGE))["Config"]
    )
    labels, env = config["config"]["Labels"], dict(one.split("=", 1) for one in config["config"]["Env"])
    assert inputs.compare(files.manifest, files.texts, labels).state == "same"
    assert labels["sparkctl.inputs"] == made.digest
    assert json.loads(labels["sparkctl.inputs.json"])["base"] == store.base
    assert config["architecture"] == "arm64"
    assert config["config"]["Entrypoint"] == ["vllm"]
    for name in ("MAX_JOBS", "FLASHINFER_NVCC_THREADS", "B12X_ROCE_SPIN_LIMIT", "TORCH_CUDA_ARCH_LIST"):
        assert env[name] == files.manifest.arguments[name].value
    assert env["PATH"].startswith("/opt/venv/bin:")
    second = play("image_build", told)
    assert (second.rc, second.changed()) == (0, 0), "an image of the same inputs is left alone"
