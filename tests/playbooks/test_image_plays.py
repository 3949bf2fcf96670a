"""image_sync.yml and image_build.yml, run by Ansible on four nodes whose docker is that of a practice node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils import spark_image
from hypothesis import given
from hypothesis import strategies as st

from launcher.images import building, held, inputs, spread
from launcher.images.building import Job
from launcher.images.spread import Spread
from rehearsal import layout, node
from rehearsal.scenario import named
from sparkctl import inventory
from sparkctl.cli.image_files import read_files

from .conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from sparkctl.line import Line

    from .conftest import Node, Play

IMAGE = "sparkctl/vllm-dsv41-exl3:0.33.0"
BASE = f"example/cuda@sha256:{'b' * 64}"
TOKEN = "7" * 64
NAMES = ("spark-a0", "spark-a1", "spark-a2", "spark-a3")
SYNCED, BUILT = "The image is here", "The image is built"


@pytest.fixture
def home(tmp_path: Path, nodes: tuple[Node, ...]) -> Path:
    """Practice nodes of which the first alone has the image; their docker and df are those that Ansible's nodes find."""
    home = tmp_path / "practice"
    home.mkdir()
    layout.furnish(home, named("healthy"), "no-token")
    for one in nodes:
        for name in ("docker", "df"):
            one.tool(name, f'exec {home / one.name / "bin" / name} "$@"')
        if one.name != "spark-a0":
            tell(home, one.name, images=())
    return home


def tell(home: Path, name: str, **traits: object) -> None:
    """Change what a practice node is like."""
    told = node.read(home / name)
    for trait, value in traits.items():
        setattr(told.traits, trait, value)
    node.write(told)


def loaded(home: Path) -> list[str]:
    """Return the nodes to which an image came."""
    return [name for name in NAMES if node.changes(home / name).images]


def line() -> Line:
    """Line A of the example inventory, on the practice nodes' addresses."""
    return inventory.read(ROOT / "inventory.example.yml").line("A")


def syncing(content: str, receivers: tuple[str, ...] = NAMES[1:], **more: object) -> dict[str, Any]:
    """Give the variables of image_sync.yml."""
    plan = Spread(
        image=IMAGE, content=content, n_bytes=1000, source="spark-a0", receivers=receivers, equal=()
    )
    told: dict[str, Any] = spread.variables(
        line(), plan, "fabric", port=layout.free_port("127.0.78.1"), token=TOKEN
    )
    for name, end in told["sync_ends"].items():
        end["own"] = f"127.0.78.{int(name[-1]) + 1}"
    told["sync_sender"]["address"] = "127.0.78.1"
    return {**told, "image_come_s": 3.0, **more}


def content(home: Path, name: str = "spark-a0") -> str:
    """Return the content digest of the image on a practice node, as the controller computes it."""
    from rehearsal.faces import docker_image

    shown = docker_image.image(node.read(home / name), IMAGE)
    labels = shown["Config"]["Labels"]
    return held.digest(shown["RootFS"]["Layers"], shown["Config"]["Env"], labels.get(inputs.DIGEST, ""))


def test_an_image_comes_to_who_lacks_it_and_only_once(play: Play, home: Path) -> None:
    """Check mode says who would change and sends nothing; the first run changes three nodes, the second none."""
    wanted = content(home)
    dry = play("image_sync", syncing(wanted), "--check")
    assert (dry.rc, dry.changed(), loaded(home)) == (0, 3, [])
    first = play("image_sync", syncing(wanted))
    assert (first.rc, first.changed()) == (0, 3), first.text
    assert loaded(home) == list(NAMES[1:])
    assert {content(home, name) for name in NAMES} == {wanted}
    told = first.results[SYNCED]
    assert {told[name]["sha256"] for name in NAMES[1:]} == {told["spark-a1"]["sha256"]}
    assert told["spark-a0"]["ended"] == dict.fromkeys(NAMES[1:], "took it")
    second = play("image_sync", syncing(wanted))
    assert (second.rc, second.changed()) == (0, 0)
    assert second.results[SYNCED]["spark-a0"]["ended"] == dict.fromkeys(NAMES[1:], "had it")


def test_the_secret_is_shown_nowhere(play: Play, home: Path) -> None:
    """Neither Ansible's loudest output nor any answer holds it."""
    ran = play("image_sync", syncing(content(home), NAMES[1:2]), "-vvvv")
    assert ran.rc == 0, ran.text
    assert TOKEN not in ran.text + json.dumps(ran.results, default=str)


def test_a_sender_whose_image_is_another_one_sends_nothing(play: Play, home: Path) -> None:
    """What was seen a moment ago must still be there; the receiver says that nobody listens."""
    ran = play("image_sync", syncing("sha256:" + "0" * 64, NAMES[1:2], image_come_s=1.0))
    assert ran.rc != 0
    told = ran.results[SYNCED]
    assert "somebody changes images on that node" in str(told["spark-a0"]["hint"])
    assert "connection refused" in str(told["spark-a1"]["msg"])
    assert loaded(home) == []


def test_an_image_without_docker_s_answer_is_no_absent_one(
    play: Play, home: Path, nodes: tuple[Node, ...]
) -> None:
    """A daemon that does not answer is told in its own words, and the other receivers are served."""
    nodes[2].tool("docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    ran = play("image_sync", syncing(content(home)))
    assert "Cannot connect to the Docker daemon" in str(ran.results[SYNCED]["spark-a2"]["msg"])
    assert loaded(home) == ["spark-a1", "spark-a3"]
    assert ran.results[SYNCED]["spark-a0"]["missing"] == ["spark-a2"]


def building_on(name: str, **more: object) -> dict[str, Any]:
    """Give the variables of image_build.yml for the image that ships."""
    files = read_files("vllm-dsv41-exl3")
    made = inputs.gather(files.manifest, files.texts, BASE)
    told: dict[str, Any] = building.variables(
        Job(manifest=files.manifest, inputs=made, texts=files.texts, node=name)
    )
    told["build"] |= more
    return told


def test_an_image_is_built_once_and_says_of_what(play: Play, home: Path) -> None:
    """Check mode builds nothing; the first run builds, with both labels; the second finds the same inputs."""
    told = building_on("spark-a1")
    dry = play("image_build", told, "--check")
    assert (dry.rc, dry.changed(), loaded(home)) == (0, 1, [])
    first = play("image_build", told)
    assert (first.rc, first.changed(), loaded(home)) == (0, 1, ["spark-a1"]), first.text
    labels = node.changes(home / "spark-a1").images[IMAGE]["config"]["Labels"]
    assert labels["sparkctl.inputs"] == inputs.sha256(labels["sparkctl.inputs.json"])
    assert json.loads(labels["sparkctl.inputs.json"])["base"] == BASE
    assert labels["org.opencontainers.image.title"] == "vllm-dsv41-exl3"
    second = play("image_build", told)
    assert (second.rc, second.changed()) == (0, 0)
    assert second.results[BUILT]["spark-a1"]["content"] == first.results[BUILT]["spark-a1"]["content"]


@pytest.mark.parametrize(
    ("more", "measured"),
    [
        (
            {"platform": "linux/amd64"},
            "this node is aarch64; wanted a node of the image's machine, linux/amd64",
        ),
        ({"space_bytes": 10**16}, "1800.0 GiB are free below /var/lib/docker; wanted 9313225.7 GiB"),
        ({"files": {"Containerfile": "ARG BASE\nFROM ${BASE}\nCOPY gone /x\n"}}, '"/gone": not found'),
        ({"files": {}}, "open Containerfile: no such file or directory"),
        ({"inputs": "0" * 64}, "after docker build"),
    ],
    ids=["machine", "room", "copy", "no-file", "label"],
)
def test_a_build_that_cannot_be_says_why(
    play: Play, home: Path, more: dict[str, object], measured: str
) -> None:
    """Another machine and too little room are said before the build, docker's own words after it; each with a remedy."""
    ran = play("image_build", building_on("spark-a1", **more))
    assert ran.rc != 0
    told = ran.results[BUILT]["spark-a1"]
    assert measured in str(told["msg"])
    assert told["hint"]
    assert loaded(home) == (["spark-a1"] if "inputs" in more else [])


@given(
    layers=st.lists(st.text(max_size=8)),
    names=st.lists(st.text(alphabet="ABC", min_size=1, max_size=3), unique=True),
    made_of=st.text(max_size=8),
    data=st.data(),
)
def test_both_ends_mean_the_same_by_content(
    layers: list[str], names: list[str], made_of: str, data: st.DataObject
) -> None:
    """The node's digest is the controller's, also where the controller does not see a value."""
    env = [f"{name}={data.draw(st.text(max_size=5))}" for name in names]
    withheld = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    seen = [f"{one.partition('=')[0]}=" if one.partition("=")[0] in withheld else one for one in env]
    assert spark_image.digest(layers, env, made_of, withheld) == held.digest(layers, seen, made_of)
    assert spark_image.INPUTS == inputs.DIGEST
