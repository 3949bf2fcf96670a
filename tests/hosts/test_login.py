"""What real OpenSSH and Ansible say of hosts that cannot be used, and that the other hosts' answers are kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bootcheck.facts import Bundle
from rehearsal.hosts import Rack, Relay, Weather
from rehearsal.hosts.login import PORT

from .conftest import Look, check, findings

SLOW = Weather(there_s=0.05, back_s=0.05)
SILENT = Weather(silent_after=5000)
DROPPED = Weather(cut_after=5000)  # the log-in takes some 4 KB, the answer 8


@pytest.fixture(scope="module")
def kept_out(rack: Rack, look: Look) -> Iterator[Bundle]:
    """One look: the first host far away, one with another's host key, one without our user, one that breaks off."""
    far, other, stranger, broken = rack.hosts
    with (
        Relay(far.peer.management, PORT, SLOW) as slowly,
        Relay(broken.peer.management, PORT, DROPPED) as dropping,
    ):
        inventory = rack.inventory(
            "kept-out",
            changes={
                far.name: slowly.variables,
                stranger.name: {"ansible_user": "stranger"},
                broken.name: dropping.variables,
            },
            keys={
                slowly.place: far.key,
                other.peer.management: far.key,
                dropping.place: broken.key,
            },
        )
        yield look(inventory, "links", "memory")


@pytest.fixture(scope="module")
def without_service(rack: Rack, look: Look) -> Bundle:
    """One look: a host without sshd, one without Python where the inventory says."""
    gone, bare = rack.hosts[1].name, rack.hosts[2].name
    inventory = rack.inventory(
        "without-service", changes={bare: {"ansible_python_interpreter": "/opt/python/bin/python3"}}
    )
    with rack.refusing(gone):
        return look(inventory, "links")


def test_a_host_that_falls_silent_does_not_hold_up_the_others(rack: Rack, tmp_path: Path) -> None:
    """A node that wedges keeps its connections open and says nothing; it is named, and the check ends by itself."""
    wedged = rack.hosts[3]
    with Relay(wedged.peer.management, PORT, SILENT) as relay:
        inventory = rack.inventory(
            "silent", changes={wedged.name: relay.variables}, keys={relay.place: wedged.key}
        )
        ran = check(inventory, tmp_path, limit_s=45)
    said = {one["node"]: one["verdict"] for one in ran.findings if one["gate"] == "reachable"}
    assert said == {"spark-a0": "pass", "spark-a1": "pass", "spark-a2": "pass", "spark-a3": "unknown"}
    assert ran.code == 3


def test_a_host_far_away_answers_in_full(kept_out: Bundle) -> None:
    """A tenth of a second there and back slows the look and changes nothing in it, whatever became of the others."""
    far = kept_out.nodes["spark-a0"]
    assert not far.unreachable
    assert {record.probe: record.rc for record in far.probes} == {"links": 0, "memory": 0}


@pytest.mark.parametrize(
    ("name", "said", "detail"),
    [
        ("spark-a1", "its host key is not the one in known_hosts", "kept-out.known_hosts:2"),
        ("spark-a2", "the login was refused", "stranger@"),
    ],
)
def test_who_is_kept_out_is_told_why(kept_out: Bundle, name: str, said: str, detail: str) -> None:
    """A changed key and a refused user are two troubles, each with its remedy and with what OpenSSH named."""
    found = findings(kept_out, "reachable")[name]
    assert found.verdict == "unknown"
    assert found.measured.startswith(said)
    assert detail in found.measured
    assert found.hint


def test_a_connection_that_breaks_off_costs_its_own_host_only(kept_out: Bundle) -> None:
    """The host whose answer broke off in the middle is named, with no half of a record."""
    assert findings(kept_out, "reachable")["spark-a3"].verdict == "unknown"
    assert kept_out.nodes["spark-a3"].unreachable
    assert kept_out.nodes["spark-a3"].probes == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("spark-a1", "the connection was refused"),
        ("spark-a2", "there is no Python interpreter where Ansible looks for it"),
    ],
)
def test_what_a_host_lacks_is_told(without_service: Bundle, name: str, said: str) -> None:
    """No sshd and no Python are told apart; the hosts beside them pass."""
    found = findings(without_service, "reachable")
    assert (found[name].verdict, found[name].measured) == ("unknown", said)
    assert {found[other].verdict for other in ("spark-a0", "spark-a3")} == {"pass"}
