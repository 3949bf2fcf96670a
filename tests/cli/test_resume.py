"""What a boot finds on record before it begins."""

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launcher.ranks import Rank
from ledger.steps import Trace
from sparkctl import ansible
from sparkctl.cli.resume import proven
from sparkctl.line import Line, Node, Rail

TRACE = Trace(
    boot="b1",
    recipe_digest="0" * 64,
    stage="launch",
    state="began",
    at="2026-11-29T12:00:00Z",
    steps=5,
    is_ended=False,
)


def _rank(rank: int, state: str, boot: str) -> Rank:
    return Rank(node=f"n{rank}", rank=rank, state=state, boot=boot)


@pytest.mark.parametrize(
    ("ranks", "stage"),
    [
        ((("running", "b1"), ("running", "b1"), ("running", "b1")), "ready"),
        ((("absent", ""), ("running", "b1"), ("running", "b1")), "launch"),
        ((("absent", ""), ("absent", ""), ("running", "b1")), "launch"),
        # A rank that ended, or one that is missing in the midst, has left its rendezvous: nothing is added to that.
        ((("exited", "b1"), ("running", "b1"), ("running", "b1")), "check"),
        ((("running", "b1"), ("absent", ""), ("running", "b1")), "check"),
        ((("running", "b1"), ("running", "b1"), ("exited", "b1")), "check"),
        ((("absent", ""), ("absent", ""), ("absent", "")), "check"),
        ((("absent", ""), ("running", "b0"), ("running", "b1")), "check"),
        ((("unreachable", ""), ("running", "b1"), ("running", "b1")), "check"),
    ],
)
def test_what_runs_decides_where_a_boot_goes_on(ranks: tuple[tuple[str, str], ...], stage: str) -> None:
    """All ranks of this boot: wait; the first of the launch order: start the rest; anything else: everything anew."""
    launched = tuple(reversed([_rank(place, *one) for place, one in enumerate(ranks)]))
    assert proven(TRACE, launched) == stage
    assert proven(TRACE, launched, joins=False) == ("check" if stage == "launch" else stage)


def test_what_a_killed_controller_left_is_ended_and_nothing_else() -> None:
    """A process that carries this line's mark goes; one of another line, and ssh's own master, stay."""
    rail = Rail(interface="i", address="198.51.100.1", hca="h")
    node = Node(name="n", rank=0, host="192.0.2.1", port=22, user=None, key_file=None, rails=(rail,))
    line = Line(
        name="A",
        nodes=(node,),
        recipe=None,
        api_host="192.0.2.1",
        api_port=8000,
        master_port=29501,
        floors={},
        known_hosts=None,
        source="",
    )
    other = dataclasses.replace(line, nodes=(dataclasses.replace(node, host="192.0.2.2"),))
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]

    def start(identity: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*sleep, *more], env={**os.environ, "SPARKCTL_CHANGES": identity})

    ours, theirs, master = start(line.identity), start(other.identity), start(line.identity, "ssh: x [mux]")
    try:
        until = time.monotonic() + 5
        # A process that is just being made has no command line yet by which a master could be told.
        while b"[mux]" not in Path(f"/proc/{master.pid}/cmdline").read_bytes() and time.monotonic() < until:
            time.sleep(0.02)
        while ansible.end_orphans(line) == 0 and time.monotonic() < until:
            time.sleep(0.02)
        assert ours.wait(5) < 0
        assert theirs.poll() is None
        assert master.poll() is None
        assert ansible.end_orphans(line) == 0
    finally:
        for one in (ours, theirs, master):
            one.kill()
            one.wait()
