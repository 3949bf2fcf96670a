"""What scene files cannot say of the fabric: lists of names, variables that are not set, and what hints advise."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bootcheck import gates
from bootcheck.facts import Unread
from bootcheck.findings import Finding
from bootcheck.gates.gate import Scene
from bootcheck.gates.names import Names
from bootcheck.gates.netplan import Wish, drop_in

MakeScene = Callable[..., Scene]
PRESENT = ("rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1")


@pytest.mark.parametrize(
    ("text", "chosen", "missing"),
    [
        ("rocep1s0f0", ("rocep1s0f0",), ()),
        ("rocep1s0f0,roceP2p1s0f0", ("rocep1s0f0", "roceP2p1s0f0"), ()),
        ("rocep1s0f0:1, roceP2p1s0f0:1", ("rocep1s0f0", "roceP2p1s0f0"), ()),
        ("roce", PRESENT, ()),
        ("=roce", (), ("roce",)),
        ("=rocep1s0f0,rocep1s0f1:1", ("rocep1s0f0", "rocep1s0f1"), ()),
        ("^rocep1", ("roceP2p1s0f0", "roceP2p1s0f1"), ()),
        ("^=rocep1s0f1,mlx5_9", ("rocep1s0f0", "roceP2p1s0f0", "roceP2p1s0f1"), ()),
        ("^", PRESENT, ()),
        ("mlx5_0,rocep1s0f0", ("rocep1s0f0",), ("mlx5_0",)),
    ],
)
def test_a_list_of_names_chooses_as_nccl_does(
    text: str, chosen: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    """Beginnings, whole names after `=`, the rest after `^`; ports do not matter."""
    names = Names.of(text)
    assert names.among(PRESENT) == chosen
    assert names.missing(PRESENT) == missing


def test_other_tools_want_whole_names() -> None:
    """What is a beginning to NCCL is another name to Gloo."""
    assert Names.of("rocep1s0f", is_exact=True).missing(PRESENT) == ("rocep1s0f",)


def without(scene: Scene, *names: str) -> Scene:
    """Return the scene with a recipe that does not set some variables."""
    environments = {
        node: {name: value for name, value in env.items() if name not in names}
        for node, env in scene.needs.environments.items()
    }
    return dataclasses.replace(scene, needs=dataclasses.replace(scene.needs, environments=environments))


def differing(scene: Scene, node: str = "spark-a1") -> dict[str, Finding]:
    """Return the findings of one node that are no pass."""
    found = gates.judge(scene)
    return {one.gate: one for one in found if one.node == node and one.verdict != "pass"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NCCL_NET", "NCCL_NET is not set: without RDMA NCCL would fall back to TCP unseen"),
        ("VLLM_HOST_IP", "VLLM_HOST_IP is not set: vLLM takes the address of the default route"),
    ],
)
def test_a_variable_that_decides_should_be_set(scene: MakeScene, name: str, said: str) -> None:
    """Leaving it to chance is worth a warning."""
    found = differing(without(scene({}), name))
    assert {gate: one.verdict for gate, one in found.items()} == {"nccl-environment": "warn"}
    assert found["nccl-environment"].measured == said


@pytest.mark.parametrize("name", ["NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_DISABLE", "TP_SOCKET_IFNAME"])
def test_other_variables_may_be_left_out(scene: MakeScene, name: str) -> None:
    """Their default does no harm on a line whose every device is a rail's."""
    assert differing(without(scene({}), name)) == {}


def test_without_a_list_nccl_takes_a_port_that_is_no_rail(scene: MakeScene) -> None:
    """A fourth port that is up and leads elsewhere would be paired too (eugr/spark-vllm-docker#40)."""
    told = json.loads((Path(__file__).parent / "scenes" / "a_port_to_a_pc.json").read_text())
    found = differing(without(scene(told["said"]), "NCCL_IB_HCA"))
    assert (
        found["nccl-names"].measured
        == "NCCL_IB_HCA is not set, so NCCL takes rocep1s0f1, no rail of this node"
    )


def scene_of(scene: MakeScene, name: str) -> Scene:
    """Return the scene of a file."""
    told: Mapping[str, Any] = json.loads((Path(__file__).parent / "scenes" / f"{name}.json").read_text())
    return scene(told["said"], told.get("floors"), told.get("needs"))


@pytest.mark.parametrize(
    ("name", "node", "gate", "advice"),
    [
        (
            "mtu_fell_back",
            "spark-a1",
            "mtu",
            "on spark-a1, in a file of its own under /etc/netplan: network: {version: 2, ethernets: {enP2p1s0f0np0: {mtu: 9000}}}; then",
        ),
        ("address_missing", "spark-a0", "mtu", "enP2p1s0f0np0: {addresses: [10.10.2.1/24], mtu: 9000}"),
        ("rail_down", "spark-a0", "mtu", "no link on enP2p1s0f0np0: reseat its cable"),
        ("black_hole", "spark-a3", "jumbo-ping", "give the switch's ports an MTU of 9216 or more"),
        ("own_interface_refuses", "spark-a3", "jumbo-ping", "ip route get 10.10.1.2 shows whose MTU it is"),
        ("partial_loss", "spark-a3", "jumbo-ping", "ethtool -S"),
        ("no_answer_to_arp", "spark-a3", "jumbo-ping", "check cable, peer and firewall"),
        (
            "profile_under_run",
            "spark-a1",
            "network-profiles",
            "enP2p1s0f0np0: {addresses: [10.10.2.2/24], mtu: 9000}",
        ),
        ("hca_missing", "spark-a2", "hca", "hca: rocep1s0f1 for enp1s0f0np0"),
        ("rdma_ports_down", "spark-a2", "rdma", "no link on enp1s0f0np0: reseat its cable"),
        (
            "roce_mtu_1024",
            "spark-a1",
            "rdma",
            "give enp1s0f0np0 an MTU of 4200 or more, as boot --apply does",
        ),
        ("mtu_fell_back", "spark-a1", "mtu", "boot --apply raises the running MTU of enP2p1s0f0np0 until"),
        (
            "mtu_4200_is_enough",
            "spark-a0",
            "mtu",
            "boot --apply raises the running MTU of enp1s0f0np0, enP2p1s0f0np0",
        ),
        ("gid_moved", "spark-a1", "gid", "set env.NCCL_IB_GID_INDEX to -1, so that NCCL chooses"),
        ("gid_moved", "spark-a1", "gid", "spark-a0: rocep1s0f0 3; spark-a1: rocep1s0f0 5"),
        ("gid_moved", "spark-a1", "gid", "indices move between reboots"),
        ("gid_index_empty", "spark-a1", "gid", "set env.NCCL_IB_GID_INDEX to 3"),
        (
            "name_of_another_node",
            "spark-a1",
            "nccl-names",
            'env.GLOO_SOCKET_IFNAME: "{fabric_interface}" (enp1s0f0np0',
        ),
        ("degraded_link_both_ways", "spark-a1", "transfer", "the cable of enp1s0f0np0 of spark-a2, then"),
        ("degraded_link_both_ways", "spark-a2", "transfer", "the cable of enp1s0f0np0 of spark-a2, then"),
        ("degraded_link", "spark-a1", "transfer", "enP2p1s0f0np0 of spark-a1 and enP2p1s0f0np0 of spark-a2"),
    ],
)
def test_a_hint_says_what_to_do_and_where(
    scene: MakeScene, name: str, node: str, gate: str, advice: str
) -> None:
    """The remedy names the node's own interface, device, index or cable."""
    assert advice in differing(scene_of(scene, name), node)[gate].hint


@pytest.mark.parametrize(
    ("name", "node"),
    [("address_missing", "spark-a0"), ("wrong_interface", "spark-a0"), ("rail_down", "spark-a0")],
)
def test_applying_is_not_promised_where_it_changes_nothing(scene: MakeScene, name: str, node: str) -> None:
    """It raises the running MTU of the inventory's interface where that is too small, and gives no address and no link."""
    assert "--apply" not in differing(scene_of(scene, name), node)["mtu"].hint


def test_netplan_lines_are_yaml_on_one_line() -> None:
    """What is well as it is stays out."""
    wishes = {"a0": Wish(mtu=9000), "b0": Wish(address="10.10.2.1/24", mtu=4200)}
    assert drop_in(wishes) == (
        "network: {version: 2, ethernets: {a0: {mtu: 9000}, b0: {addresses: [10.10.2.1/24], mtu: 4200}}}"
    )


FABRIC = {
    *("mtu", "jumbo-ping", "cabling", "addresses", "network-profiles", "hca", "rdma", "firmware-parity"),
    *("gid", "nccl-environment", "nccl-names", "link-speed", "transfer"),
}
PROBES = ("links", "jumbo-ping", "ports", "nm-profiles", "rdma", "gids", "hca-names", "transfer")


def test_a_probe_that_was_left_out_is_not_judged(scene: MakeScene) -> None:
    """Of all the gates on the fabric only what reads the recipe alone is left."""
    made = scene({})
    left = {name: (Unread(probe=name, why="left out", is_left_out=True),) for name in PROBES}
    facts = tuple(dataclasses.replace(one, read={**one.read, **left}) for one in made.facts)
    found = gates.judge(dataclasses.replace(made, facts=facts))
    assert {one.gate for one in found} & FABRIC == {"nccl-environment"}


def test_one_node_needs_no_fabric(scene: MakeScene) -> None:
    """A line of one node asks nobody and has nothing to send to."""
    made = scene({})
    alone = dataclasses.replace(made.line, nodes=made.line.nodes[:1])
    facts = dataclasses.replace(made.facts[0], read={**made.facts[0].read, "jumbo-ping": (), "transfer": ()})
    found = gates.judge(dataclasses.replace(made, line=alone, facts=(facts,)))
    assert {one.gate: one.verdict for one in found if one.gate in FABRIC} == dict.fromkeys(FABRIC, "pass")


def test_a_node_that_does_not_answer_leaves_the_others_judged(scene: MakeScene) -> None:
    """Its end is not known, so the others are held to what is enough, and cabling counts those that are known."""
    made = scene({"spark-a3": {"unreachable": {"unreachable": "refused", "hint": "see sshd"}}})
    found = gates.judge(made)
    assert {one.verdict for one in found if one.gate in FABRIC} == {"pass"}
    told = next(one.measured for one in found if (one.node, one.gate) == ("spark-a0", "cabling"))
    assert "join 3 nodes" in told
    assert "1 more not known" in told
