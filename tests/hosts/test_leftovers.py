"""Processes and listeners of a host as the real ps and ss show them, each host its own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bootcheck.facts import Bundle
from bootcheck.findings import Finding
from rehearsal.hosts import Host, Rack

from .conftest import Look, findings

LISTEN = "import socket, time; door = socket.create_server(('0.0.0.0', 29501)); time.sleep(60)"
ENGINE = "import os; os.execvp('sleep', ['VLLM::EngineCore', '60'])"


@contextmanager
def running(host: Host, script: str) -> Iterator[str]:
    """Run a Python script inside a host for the block; yields its pid there."""
    inside = host.namespace.inside
    pid = inside("sh", "-c", 'python3 -c "$1" >/dev/null 2>&1 & echo $!', "sh", script).strip()
    try:
        yield pid
    finally:
        inside("kill", pid)


@pytest.fixture(scope="module")
def left(rack: Rack, look: Look) -> Bundle:
    """One look: a stale rendezvous on the second host, an engine without a container on the third."""
    _, rendezvous, engine, _ = rack.hosts
    with running(rendezvous, LISTEN), running(engine, ENGINE) as pid:
        until = time.monotonic() + 5
        while ":29501" not in rendezvous.namespace.inside("ss", "-ltn") and time.monotonic() < until:
            time.sleep(0.02)
        while (
            "VLLM" not in engine.namespace.inside("ps", "-o", "args=", "-p", pid) and time.monotonic() < until
        ):
            time.sleep(0.02)
        return look(
            rack.inventory(), "listeners", "processes", "containers", "gpu-processes", "shared-memory"
        )


def accused(bundle: Bundle, gate: str) -> dict[str, Finding]:
    """Return what a gate finds on the hosts that it does not pass."""
    return {name: one for name, one in findings(bundle, gate).items() if one.verdict != "pass"}


def test_a_stale_rendezvous_is_named_where_it_listens(left: Bundle) -> None:
    """The master port is taken on one host only; the same port on the others is another network's."""
    found = accused(left, "ports")
    assert set(found) == {"spark-a1"}
    assert found["spark-a1"].verdict == "fail"
    assert "0.0.0.0:29501 by python3" in found["spark-a1"].measured
    assert set(accused(left, "listeners")) == {"spark-a1"}


def test_an_engine_without_a_container_is_found(left: Bundle) -> None:
    """A host has its own processes, so an engine is seen on one host and no other."""
    found = accused(left, "engine-processes")
    assert set(found) == {"spark-a2"}
    assert "VLLM::EngineCore" in found["spark-a2"].measured


def test_sshd_is_no_leftover(left: Bundle) -> None:
    """Every host listens on port 22 of every address, as a node does, and is not blamed for it."""
    assert findings(left, "listeners")["spark-a0"].verdict == "pass"
    assert findings(left, "ports")["spark-a0"].verdict == "pass"
