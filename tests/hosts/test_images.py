"""`sparkctl images sync` over hosts with real sshd, real Ansible and sockets on real rails; docker alone is a stand-in.

A practice node's `docker save` gives a tar stream of three megabytes, `docker load` checks every layer of it.
"""

import json
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal import node
from rehearsal.hosts import Rack
from rehearsal.hosts.rack import Host

from ..program import Ended, Program

IMAGE = "sparkctl/vllm-dsv41-exl3:0.33.0"
STREAM = 3_000_000
"""Bytes that a stream has at least."""

Sync = Callable[..., Ended]

_SECRET = re.compile(r"\b[0-9a-f]{64}\b")
"""What the token of a run looks like."""


@pytest.fixture
def lacking(rack: Rack) -> Iterator[Rack]:
    """Four hosts of which the first alone has the image; afterwards all have it again."""
    for host in rack.hosts[1:]:
        tell(host, images=())
    yield rack
    for host in rack.hosts:
        tell(host, images=("*sparkctl*",), docker_free_gib=1800.0)
        (host.folder / "changed.json").unlink(missing_ok=True)
        real = host.folder / "bin" / "docker.real"
        if real.exists():
            real.replace(real.with_name("docker"))


def tell(host: Host, **traits: object) -> None:
    """Change what a host's stand-in of docker is like."""
    told = node.read(host.folder)
    for name, value in traits.items():
        setattr(told.traits, name, value)
    node.write(told)


def wrap(host: Host, script: str) -> None:
    """Put a shell script in front of a host's docker; in it $real is the stand-in, and $mark a name of its own."""
    own = host.folder / "bin" / "docker"
    real = own.replace(own.with_name("docker.real"))
    own.write_text(
        f"#!/bin/sh\nreal='{real}' mark='{host.folder / 'tmp' / 'mark'}'\n{script}\nexec \"$real\" \"$@\"\n",
        encoding="utf-8",
    )
    own.chmod(own.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


@pytest.fixture
def sync(lacking: Rack, tmp_path: Path) -> Sync:
    """Return what runs the verb as a user calls it."""
    inventory = lacking.inventory("images")

    def run(*arguments: str) -> Ended:
        return Program(tmp_path)("images", "sync", "-i", str(inventory), "--json", *arguments, limit_s=90)

    return run


def rows(ended: Ended) -> dict[str, dict[str, Any]]:
    """Return what became of each node, by name."""
    return {one["node"]: one for one in ended.document["nodes"]}


def held(host: Host) -> list[str]:
    """Return the images that were loaded on a host."""
    return list(node.changes(host.folder).images)


def test_the_image_comes_to_every_node_once(sync: Sync, lacking: Rack) -> None:
    """Three nodes take it at once, each a whole stream, over the fabric; a second run finds nothing to do."""
    source = lacking.hosts[0]
    wrap(source, 'case $1 in save) ss -Hltn >"$mark.listening"; ps -eo args >"$mark.args" ;; esac')
    first = sync()
    assert first.code == 0, first.out + first.err
    told = rows(first)
    assert [told[name]["changed"] for name in ("spark-a0", "spark-a1", "spark-a2", "spark-a3")] == [
        False,
        True,
        True,
        True,
    ]
    assert all(told[host.name]["n_bytes"] > STREAM for host in lacking.hosts[1:])
    assert all(held(host) == [IMAGE] for host in lacking.hosts[1:])
    own = source.peer.rails[0].address
    listening = (source.folder / "tmp" / "mark.listening").read_text()
    doors = [row.split()[3] for row in listening.splitlines()]
    doors = [door for door in doors if door.rpartition(":")[2] != "22"]
    assert doors
    assert all(door.startswith(f"{own}:") for door in doors), (
        "it listens at its own fabric address and nowhere else"
    )
    secret = json.dumps(first.document)
    assert not [
        row for row in (source.folder / "tmp" / "mark.args").read_text().splitlines() if _SECRET.search(row)
    ]
    assert "token" not in secret
    second = sync()
    assert second.code == 0, second.err
    assert second.document["nodes"] == []
    assert second.document["equal"] == ["spark-a1", "spark-a2", "spark-a3"]


def test_a_stream_cut_in_the_middle_is_taken_up(sync: Sync, lacking: Rack) -> None:
    """The first save dies half way; the node's docker load stays open, and the rest comes from where it broke."""
    for host in lacking.hosts[2:]:
        tell(host, images=("*sparkctl*",))
    wrap(
        lacking.hosts[0],
        'case $1 in save) if mkdir "$mark.cut" 2>/dev/null; then "$real" "$@" | head -c 1500000; exit 1; fi ;; esac',
    )
    wrap(lacking.hosts[1], 'case $1 in load) echo load >>"$mark.loads" ;; esac')
    ended = sync()
    assert ended.code == 0, ended.out + ended.err
    told = rows(ended)["spark-a1"]
    assert (told["breaks"], told["restarts"], told["changed"]) == (1, 0, True)
    assert (lacking.hosts[1].folder / "tmp" / "mark.loads").read_text().split() == ["load"]
    assert held(lacking.hosts[1]) == [IMAGE]


def test_a_damaged_image_is_not_taken_for_the_sender_s(sync: Sync, lacking: Rack) -> None:
    """What docker save gives wrongly is refused by docker load in its own words; the other nodes are not kept from theirs."""
    wrap(lacking.hosts[0], "case $1 in save) \"$real\" \"$@\" | tr '\\001' '\\002'; exit ;; esac")
    ended = sync()
    assert ended.code == 1, ended.err
    told = rows(ended)
    assert told["spark-a0"]["fault"] == ""
    for host in lacking.hosts[1:]:
        assert "docker load ended with rc 1" in told[host.name]["fault"]
        assert "wrong diff id" in told[host.name]["fault"]
        assert told[host.name]["hint"]
        assert held(host) == []


def test_an_image_that_is_another_after_loading_is_named(sync: Sync, lacking: Rack) -> None:
    """A docker that says it loaded and holds something else is caught by the content."""
    for host in lacking.hosts[2:]:
        tell(host, images=("*sparkctl*",))
    wrap(lacking.hosts[1], 'case $1 in load) cat >/dev/null; echo "Loaded image: x"; exit 0 ;; esac')
    ended = sync()
    assert ended.code == 1
    assert (
        f"after docker load {IMAGE} is not there; wanted content sha256:" in rows(ended)["spark-a1"]["fault"]
    )


def test_too_little_room_is_said_before_anything_is_sent(sync: Sync, lacking: Rack) -> None:
    """A node whose docker has less room than the image needs keeps its disk, and says how much it would take."""
    tell(lacking.hosts[3], docker_free_gib=20.0)
    wrap(lacking.hosts[3], 'case $1 in load) echo load >>"$mark.loads" ;; esac')
    ended = sync()
    assert ended.code == 1
    told = rows(ended)
    assert told["spark-a3"]["fault"].startswith("20.0 GiB are free below /var/lib/docker; wanted 58.1 GiB")
    assert "docker image prune" in told["spark-a3"]["hint"]
    assert not (lacking.hosts[3].folder / "tmp" / "mark.loads").exists()
    assert all(held(host) == [IMAGE] for host in lacking.hosts[1:3])


def test_a_sender_that_lacks_it_sends_nothing(sync: Sync) -> None:
    """A node that is named as the source and does not have the image is refused, with who has it."""
    ended = sync("--from", "spark-a2")
    assert ended.code == 1
    assert f"spark-a2 does not have {IMAGE}" in ended.document["error"]["message"]
    assert "it is on: spark-a0;" in ended.document["error"]["hint"]


def test_a_node_that_does_not_answer_ends_it_first(lacking: Rack) -> None:
    """A node that cannot be asked ends the sync before anything is sent."""
    inventory = lacking.inventory("images-gone")
    with lacking.refusing("spark-a3"):
        ended = Program(lacking.home / "state")("images", "sync", "-i", str(inventory), "--json", limit_s=60)
    assert ended.code == 3
    assert "spark-a3" in ended.document["error"]["message"]
    assert all(held(host) == [] for host in lacking.hosts)
