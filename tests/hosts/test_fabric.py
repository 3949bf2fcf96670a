"""Interfaces, pings and transfers as real namespaces show them, with cables wrong in five ways."""

import pytest

from bootcheck.facts import Bundle
from bootcheck.probes.fabric import Ping
from bootcheck.probes.transfer import Transfer, Transfers
from launcher import survey
from rehearsal.hosts import Cable, Rack
from sparkctl import ansible, inventory

from .conftest import Look, findings

OWN, PATH, UNPLUGGED, NAMELESS = ("spark-a1", 0), ("spark-a2", 1), ("spark-a3", 0), ("spark-a3", 1)
WRONG = {
    OWN: Cable(mtu=1500),
    PATH: Cable(path_mtu=1500),
    UNPLUGGED: Cable(is_plugged=False),
    NAMELESS: Cable(has_address=False),
}
# Far below what two busy cores still carry over every other rail.
CAP_GBIT_S = 0.2


@pytest.fixture(scope="module")
def troubled(rack: Rack, look: Look) -> Bundle:
    """What the hosts said while the cables were wrong."""
    with rack.plugged(WRONG):
        return look(rack.inventory(), "links", "jumbo-ping")


def lost(bundle: Bundle, name: str) -> dict[str, int | None]:
    """Return the addresses that did not answer a host, each with the MTU of the own interface where that refused."""
    facts = next(facts for facts in survey.scene(bundle).facts if facts.node == name)
    pings = [ping for ping in facts.all(Ping) if isinstance(ping, Ping)]
    return {ping.address: ping.local_mtu for ping in pings if ping.received < ping.sent}


def address(rack: Rack, place: tuple[str, int]) -> str:
    """Return the address of a rail."""
    return rack.host(place[0]).peer.rails[place[1]].address


def test_healthy_rails_pass(rack: Rack, look: Look) -> None:
    """Nothing was plugged wrongly, so nothing is found wrong: every full-size ping comes back."""
    found = look(rack.inventory(), "links", "jumbo-ping")
    for gate in ("reachable", "mtu", "jumbo-ping"):
        assert {one.verdict for one in findings(found, gate).values()} == {"pass"}, gate
    assert all(lost(found, host.name) == {} for host in rack.hosts)


def test_a_small_interface_is_named_by_its_own_node(rack: Rack, troubled: Bundle) -> None:
    """The node whose interface fell back to 1500 refuses its own packets; the others hear nothing from it."""
    own = lost(troubled, "spark-a1")
    # Its other rail lost the way to the black hole and to the node without that address.
    refused = {place for place, mtu in own.items() if mtu == 1500}
    rail = rack.host("spark-a1").peer.rails[0].address.rpartition(".")[0]
    assert refused == {f"{rail}.{number}" for number in (1, 3, 4)}
    assert lost(troubled, "spark-a0")[address(rack, OWN)] is None
    found = findings(troubled, "mtu")
    assert found["spark-a0"].verdict == "pass"
    assert found["spark-a1"].verdict == "fail"
    assert "1500" in found["spark-a1"].measured


def test_a_black_hole_is_silence_between_large_interfaces(rack: Rack, troubled: Bundle) -> None:
    """Both ends have 9000 and pass; what is sent through the small path vanishes without a word, either way."""
    assert findings(troubled, "mtu")["spark-a2"].verdict == "pass"
    assert lost(troubled, "spark-a0")[address(rack, PATH)] is None
    behind = lost(troubled, "spark-a2")
    rail = address(rack, PATH).rpartition(".")[0]
    assert behind[f"{rail}.1"] is None
    assert behind[f"{rail}.2"] is None
    assert findings(troubled, "jumbo-ping")["spark-a2"].verdict == "fail"


def test_a_cable_that_is_not_plugged_is_a_link_that_is_down(rack: Rack, troubled: Bundle) -> None:
    """The interface keeps its address and MTU, so only the missing carrier tells."""
    found = findings(troubled, "mtu")["spark-a3"]
    assert found.verdict == "fail"
    assert f"{address(rack, UNPLUGGED)} on enp1s0f0np0, down" in found.measured


def test_a_missing_address_is_told_as_such(rack: Rack, troubled: Bundle) -> None:
    """A rail without its address is not the same as a rail that is down."""
    assert f"no interface has {address(rack, NAMELESS)}" in findings(troubled, "mtu")["spark-a3"].measured
    assert address(rack, NAMELESS) in lost(troubled, "spark-a0")


def test_what_is_healthy_is_not_accused(rack: Rack, troubled: Bundle) -> None:
    """The first host lost nothing but what was plugged wrongly."""
    assert set(lost(troubled, "spark-a0")) == {address(rack, place) for place in WRONG}


def test_applying_raises_a_real_interface(rack: Rack) -> None:
    """Real Ansible, sudo and ip bring an MTU that fell back to what was asked for, on that host and that rail only."""
    line = inventory.read(rack.inventory()).line(None)
    host, rail = rack.host(OWN[0]), rack.host(OWN[0]).peer.rails[OWN[1]]
    with rack.plugged({OWN: Cable(mtu=1500)}):
        wanted = {"apply_links": {host.name: [rail.interface]}, "apply_mtu": 9000}
        answers = ansible.run("settle", line, wanted)
        shown = host.namespace.inside("cat", f"/sys/class/net/{rail.interface}/mtu").strip()
    assert [one.message for one in answers if one.status not in {"ok", "skipped"}] == []
    assert {one.host for one in answers if one.changed} == {host.name}
    assert shown == "9000"


def test_a_capped_rail_is_measured_and_named(rack: Rack, look: Look) -> None:
    """Two transfers cross the slow rail, one each way: both show its rate, and their nodes fail; the others carry more."""
    with rack.plugged({OWN: Cable(cap_mbit_s=round(1000 * CAP_GBIT_S))}):
        found = look(rack.inventory(), "links", "gpu-processes", "transfer")
    slow = address(rack, OWN)
    crossing = [row for row in transfers(found) if slow in {row.address, row.peer}]
    others = [row for row in transfers(found) if row not in crossing]
    assert (len(crossing), len(others)) == (2, 6)
    # The first burst finds the bucket of the cap full, which lets a little more through.
    assert all(0.6 * CAP_GBIT_S < (row.gbit_s or 0) < 1.2 * CAP_GBIT_S for row in crossing), crossing
    assert all((row.gbit_s or 0) > 1.2 * CAP_GBIT_S for row in others), others
    judged = findings(found, "transfer")
    for name in ("spark-a0", "spark-a1"):
        assert judged[name].verdict == "fail"
        assert "enp1s0f0np0" in judged[name].measured


def transfers(bundle: Bundle) -> list[Transfer]:
    """Return what every rail of every host carried."""
    told = [facts.one(Transfers) for facts in survey.scene(bundle).facts]
    return [row for each in told if isinstance(each, Transfers) for row in each.rails]
