"""Who sends an image to whom, and what the nodes are told for it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootcheck.facts import NodeFacts, Unread
from bootcheck.probes.container import Image
from bootcheck.probes.software import Docker
from launcher.images import held as held_module
from launcher.images import spread
from launcher.images.held import Held
from sparkctl import edge, inventory
from sparkctl.errors import SparkctlError

ROOT = Path(__file__).parents[3]
CASES = sorted((Path(__file__).parent / "spreads").glob("*.json"))
DOCKER = Docker(version="28", driver="overlay2", has_containerd_store=False, architecture="aarch64")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_is_spread_as_it_says(path: Path) -> None:
    """Source, receivers and those left alone; or why nothing is sent, with the exit code."""
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    held = edge.structure(case["held"], tuple[Held, ...], source=str(path))
    wanted = case["wanted"]
    if "fault" not in wanted:
        plan = spread.spread("x:1", held, case["source"])
        assert (plan.source, list(plan.receivers), list(plan.equal)) == tuple(wanted.values())
        return
    with pytest.raises(SparkctlError) as fault:
        spread.spread("x:1", held, case["source"])
    assert fault.value.message.startswith(wanted["fault"])
    assert fault.value.exit_code == wanted["code"]


@given(st.lists(st.sampled_from(["", "sha256:a"]), min_size=1, max_size=6).filter(any))
def test_every_node_has_one_part(contents: list[str]) -> None:
    """Each node sends, takes or is left alone, and who takes has another content than the sender."""
    held = tuple(Held(node=f"n{at}", content=one) for at, one in enumerate(contents))
    plan = spread.spread("x:1", held, None)
    parts = [plan.source, *plan.receivers, *plan.equal]
    assert sorted(parts) == sorted(one.node for one in held)
    assert {one.node for one in held if one.content != plan.content} == set(plan.receivers)


@pytest.mark.parametrize(
    ("network", "addresses"),
    [("fabric", {"10.10.1.1", "10.10.1.3"}), ("management", {"spark-a0", "spark-a2"})],
)
def test_each_end_is_told_its_own_address(network: Any, addresses: set[str]) -> None:
    """The sender and each receiver get their own address on that network; the secret is theirs alone."""
    line = inventory.read(ROOT / "inventory.example.yml").line("A")
    held = tuple(Held(node=node.name, content="" if node.rank == 2 else "sha256:a") for node in line.nodes)
    told: Any = spread.variables(line, spread.spread("x:1", held, None), network, port=20001, token="t")
    hosts = {node.name: node.host for node in line.nodes}
    wanted = {hosts.get(one, one) for one in addresses}
    assert {one["own"] for one in told["sync_ends"].values()} == wanted
    assert {name: one["end"] for name, one in told["sync_ends"].items()} == {
        "spark-a0": "send",
        "spark-a2": "receive",
    }
    assert told["sync_sender"] == {
        "address": told["sync_ends"]["spark-a0"]["own"],
        "port": 20001,
        "token": "t",
    }
    assert told["sync_receivers"] == ["spark-a2"]


def facts(image: Image | Unread, docker: Docker | Unread = DOCKER) -> NodeFacts:
    """Return what is known of a node."""
    return NodeFacts(node="a", read={"image": (image,), "docker": (docker,)})


def test_content_is_what_save_and_load_keep() -> None:
    """Id, digests, store and labels of others are none of it; layers in order, environment and inputs label are."""
    first = Image(reference="x:1", is_present=True, layers=("1", "2"), env=("A=1", "B=2"))
    same = Image(
        reference="x:1",
        is_present=True,
        identity="other",
        layers=("1", "2"),
        env=("B=2", "A=1"),
        digests=("x@sha256:y",),
        labels={"a": "b"},
    )
    contained = Docker(version="29", driver="overlayfs", has_containerd_store=True, architecture="aarch64")
    assert held_module.read(facts(first)).content == held_module.read(facts(same, contained)).content
    others = (
        Image(reference="x:1", is_present=True, layers=("2", "1"), env=("A=1", "B=2")),
        Image(reference="x:1", is_present=True, layers=("1", "2"), env=("A=1", "B=3")),
        Image(
            reference="x:1",
            is_present=True,
            layers=("1", "2"),
            env=("A=1", "B=2"),
            labels={"sparkctl.inputs": "1"},
        ),
    )
    found = {held_module.read(facts(one)).content for one in (first, *others)}
    assert len(found) == 4


def test_a_withheld_value_counts_by_its_name() -> None:
    """What is withheld from the controller must not make two equal images differ."""
    told = held_module.read(
        facts(Image(reference="x:1", is_present=True, layers=("1",), env=("HF_TOKEN=<withheld>",)))
    )
    assert told.withheld == ("HF_TOKEN",)
    assert told.content == held_module.digest(("1",), ("HF_TOKEN=",), "")


def test_what_could_not_be_read_is_no_absent_image() -> None:
    """A silent node and a silent docker are faults; an image that is not there is none."""
    assert held_module.read(NodeFacts(node="a", unreachable="no route", hint="look")).fault == "no route"
    said = held_module.read(facts(Unread(probe="image", why="Cannot connect to the Docker daemon"))).fault
    assert said == "docker image inspect: Cannot connect to the Docker daemon"
    absent = held_module.read(facts(Image(reference="x:1", is_present=False)))
    assert (absent.fault, absent.is_present) == ("", False)
