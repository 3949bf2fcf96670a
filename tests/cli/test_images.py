"""`sparkctl images` on a practice line: real SSH, real Ansible, real streams; docker alone is a stand-in."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkctl.cli.image_files import read_files

from .conftest import Ended, Program

IMAGE = "sparkctl/vllm-dsv41-exl3:0.33.0"
BASE = f"example/cuda@sha256:{'b' * 64}"
EXAMPLE = str(Path(__file__).parents[2] / "inventory.example.yml")


@pytest.mark.cluster
def test_an_image_is_built_spread_and_shown(practice: Program) -> None:
    """One node lacks it: show says which, sync brings it; a new build is on one node until sync spreads it."""
    assert practice("rehearse", "up", "--scenario", "no-image").code == 0
    shown = practice("images", "show", "--rehearsal", "--json")
    assert (shown.code, shown.document["ok"]) == (1, False)
    assert [one["present"] for one in shown.document["nodes"]] == [True, True, True, False]
    assert {one["label"] for one in shown.document["nodes"]} == {"none", None}
    synced = practice("images", "sync", "--rehearsal", "--json")
    assert synced.code == 0, synced.err
    assert (synced.document["source"], synced.document["simulated"]) == ("spark-a0", True)
    assert {one["node"]: one["changed"] for one in synced.document["nodes"]} == {
        "spark-a0": False,
        "spark-a3": True,
    }

    built = practice("images", "build", "--rehearsal", "--base", BASE, "--node", "spark-a1", "--json")
    assert (built.code, built.document["changed"], built.document["node"]) == (0, True, "spark-a1"), built.err
    assert (
        practice("images", "build", "--rehearsal", "--base", BASE, "--node", "spark-a1", "--json").document[
            "changed"
        ]
        is False
    )
    shown = practice("images", "show", "--rehearsal", "--json")
    assert (shown.code, shown.document["content"]) == (1, None)
    assert [one["label"] for one in shown.document["nodes"]] == ["none", "same", "none", "none"]
    unsure = practice("images", "sync", "--rehearsal", "--json")
    assert unsure.code == 1, "which of two images is right, only the owner knows"
    assert "--from" in unsure.document["error"]["hint"]
    assert practice("images", "sync", "--rehearsal", "--from", "spark-a1").code == 0
    shown = practice("images", "show", "--rehearsal", "--json")
    assert (shown.code, shown.document["ok"]) == (0, True), shown.err
    assert {one["label"] for one in shown.document["nodes"]} == {"same"}
    assert {one["base"] for one in shown.document["nodes"]} == {BASE}


@pytest.mark.cluster
def test_a_label_that_says_otherwise_is_told_with_both_values(practice: Program, tmp_path: Path) -> None:
    """Against a manifest of one's own the label of what was built and spread above differs: exit code 1, and what differs."""
    shipped = read_files("vllm-dsv41-exl3")
    for name, text in shipped.texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    text = Path(shipped.source).read_text(encoding="utf-8").replace('value: "2"', 'value: "4"')
    (tmp_path / "image.yml").write_text(text, encoding="utf-8")
    shown = practice("images", "show", "--rehearsal", "--manifest", str(tmp_path / "image.yml"), "--json")
    assert shown.code == 1
    assert [one["differences"] for one in shown.document["nodes"]] == [
        ["arguments.MAX_JOBS: built with 2, the manifest says 4"]
    ] * 4
    checked = practice("check", "--rehearsal", "--quick", "--json")
    parity = [one["verdict"] for one in checked.document["findings"] if one["gate"] == "image-parity"]
    assert parity == ["pass"] * 4, "the gate means the same by content"


@pytest.mark.cluster
def test_a_node_that_does_not_answer_leaves_it_open(practice: Program) -> None:
    """Show tells what the others have and ends with 3; sync sends nothing."""
    assert practice("rehearse", "up", "--scenario", "node-refuses").code == 0
    shown = practice("images", "show", "--rehearsal", "--json")
    assert shown.code == 3, shown.err
    assert [one["present"] for one in shown.document["nodes"]].count(True) == 3
    assert [bool(one["fault"]) for one in shown.document["nodes"]].count(True) == 1
    assert practice("images", "sync", "--rehearsal", "--json").code == 3


def test_a_plan_prints_everything_and_touches_nothing(called: Callable[..., Ended]) -> None:
    """Every step, node and command of a build and a sync, for a line whose nodes nobody could reach from here."""
    built = called("images", "build", "--plan", "-i", EXAMPLE, "--line", "A", "--base", BASE, "--json")
    assert built.code == 0, built.err
    assert [one["stage"] for one in built.document["steps"]] == ["look", "build", "verify"]
    assert built.document["argv"][:2] == ["docker", "build"]
    assert f"BASE={BASE}" in built.document["argv"]
    assert f"sparkctl.inputs={built.document['inputs']}" in built.document["argv"]
    synced = called("images", "sync", "--plan", "-i", EXAMPLE, "--line", "A", "--from", "spark-a1", "--json")
    assert synced.code == 0, synced.err
    told = {one["stage"]: one for one in synced.document["steps"]}
    assert list(told) == ["look", "send", "receive", "verify"]
    assert told["send"]["nodes"] == ["spark-a1"]
    assert len(told["receive"]["does"]) == 3
    assert f"docker save {IMAGE}" in json.dumps(told["send"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("build", "--plan"), 2, "names no base image, and none was given"),
        (("build", "--plan", "--base", "example/cuda:13"), 2, "is not named by its digest"),
        (("build", "--plan", "--base", BASE, "--node", "spark-z"), 2, "--node spark-z: not a node of line A"),
        (("build", "nothing", "--plan", "--base", BASE), 2, "image 'nothing' is not one that ships"),
        (("build", "./nothing/image.yml", "--plan", "--base", BASE), 2, "there is no such file"),
        (("build", "--recipe", "any-model", "--plan", "--base", BASE), 1, "any-model wants 2 nodes"),
        (("sync", "--plan", "--over", "pigeon"), 2, "--over pigeon: wanted fabric or management"),
        (("sync", "--plan", "--from", "spark-z"), 2, "--from spark-z: not a node of the line"),
        (("sync", "--plan", "--port", "80"), 2, "--port"),
    ],
)
def test_a_wrong_call_says_what_was_wanted(
    called: Callable[..., Ended], arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Nothing is touched, and the exit code tells a slip from a no."""
    verb, *rest = arguments
    ended = called("images", verb, *rest, "-i", EXAMPLE, "--line", "A", "--json")
    assert ended.code == code, ended.out + ended.err
    assert said in ended.document["error"]["message"]
