"""The rack itself: it says why it cannot stand, keeps to itself, and leaves nothing, however it ends."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal.hosts import Rack, login, machine, obstacle, raised
from sparkctl.errors import Unclear

from .conftest import Look

pytestmark = pytest.mark.usefixtures("machine")

OWNER = """
import sys, time
from pathlib import Path
from rehearsal.hosts import raised
with raised(Path(sys.argv[1]), 1) as rack:
    print(rack.hosts[0].namespace.pid, rack.switch.pid, rack.controller, flush=True)
    time.sleep(60)
"""


def links() -> str:
    """Return the interfaces of this machine."""
    return machine.command(("ip", "-o", "link"))


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold in that time."""
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)
    return holds()


def is_gone(pid: int) -> bool:
    """Whether no process has that pid any more."""
    return not Path(f"/proc/{pid}/ns/net").exists()


def test_it_says_why_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root, a tool or the kernel's leave there is a reason, with the package that helps."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 1000)
        assert "not root" in obstacle()
    with monkeypatch.context() as patched:
        patched.setattr(machine, "_TOOLS", {"no-such-tool": "some-package"})
        assert obstacle() == "no-such-tool not found; install the Debian packages: some-package"
    with monkeypatch.context() as patched:
        patched.setattr(machine, "_TRIAL", "echo no bridges here >&2; exit 2")
        assert obstacle() == "the kernel refuses: no bridges here"


def test_a_host_cannot_change_the_machine(rack: Rack) -> None:
    """Its log-in is root, and neither the machine's files nor its kernel's settings can be written to."""
    host = rack.hosts[0]
    assert host.namespace.inside("hostname").strip() == "spark-a0"
    host.namespace.inside("test", "-w", str(host.folder))
    for path in ("/etc/hosts", "/usr", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/core_pattern"):
        with pytest.raises(Unclear, match="ended with 1"):  # `test -w`, so that nothing is tried for real
            host.namespace.inside("test", "-w", path)


def test_racks_stand_beside_each_other(rack: Rack, tmp_path: Path) -> None:
    """A second rack has its own management addresses, and the same rails, which never meet."""
    with raised(tmp_path, 1) as other:
        assert other.controller != rack.controller
        assert other.hosts[0].peer.management != rack.hosts[0].peer.management
        assert other.hosts[0].peer.rails == rack.hosts[0].peer.rails


def test_nothing_is_left(tmp_path: Path, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaces, wires, sshd and Ansible's kept connections are gone when the block ends."""
    # Not tmp_path: the kernel takes 108 bytes for a socket's path.
    with tempfile.TemporaryDirectory() as sockets:
        monkeypatch.setenv("ANSIBLE_SSH_CONTROL_PATH_DIR", sockets)
        with raised(tmp_path, 1) as rack:
            look(rack.inventory(), "links")
            pids = [rack.hosts[0].namespace.pid, rack.switch.pid]
            assert rack.controller in links()
            assert list(Path(sockets).iterdir()), "Ansible kept no connection, so its end shows nothing"
        assert all(is_gone(pid) for pid in pids)
        assert rack.controller not in links()
        assert within(5, lambda: list(Path(sockets).iterdir()) == [])


def test_nothing_is_left_of_one_that_did_not_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there when raising failed is taken down again."""
    seen: list[int] = []

    def fail(host: object, _: Path) -> None:
        seen.append(getattr(host, "pid", 0))
        raise Unclear("sshd does not start")

    monkeypatch.setattr(login, "listen", fail)
    before = links()
    with pytest.raises(Unclear, match="sshd does not start"), raised(tmp_path, 2):
        pass
    assert seen
    assert all(is_gone(pid) for pid in seen)
    assert links() == before


def test_nothing_is_left_when_its_owner_is_killed(tmp_path: Path) -> None:
    """SIGKILL lets nobody tidy up; the namespaces end by themselves."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    with owner.stdout as said:
        host, switch, controller = said.readline().split()
    assert controller in links()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert within(5, lambda: is_gone(int(host)) and is_gone(int(switch)) and controller not in links())
