"""What a node's journal says, who ends ranks there, and a sudo that does not help; without a cluster."""

import subprocess
from pathlib import Path

import pytest

from rehearsal.engine import killer
from rehearsal.faces import journal
from rehearsal.scenario import Traits, named

from .conftest import Face, furnished, with_node

TOTAL_KIB = 127_600_412


def test_a_quiet_node_notes_little(face: Face) -> None:
    """Every line is in the journal's form; -n counts from the end, -k leaves the kernel's."""
    said = face("journalctl", "-b", "--no-pager", "-n", "400")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert all(" spark-a0 " in line for line in lines)
    assert face("journalctl", "-b", "--no-pager", "-n", "2").out.splitlines() == lines[-2:]
    kernel = face("journalctl", "-k", "--no-pager").out.splitlines()
    assert kernel == [line for line in lines if " kernel: " in line]
    assert 0 < len(kernel) < len(lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--frob",), "journalctl: unrecognized option '--frob'\n"),
        (("-Z",), "journalctl: invalid option -- 'Z'\n"),
        (("-n", "many"), "Failed to parse lines 'many': Invalid argument\n"),
        (("--since", "lately"), "Failed to parse timestamp: lately\n"),
        (("--since", "2026-02-30 12:00:00 UTC"), "Failed to parse timestamp: 2026-02-30 12:00:00 UTC\n"),
        (("frob",), "Failed to add match 'frob': Invalid argument\n"),
    ],
)
def test_a_wrong_call_of_the_journal_is_refused(face: Face, arguments: tuple[str, ...], said: str) -> None:
    """As journalctl refuses it."""
    answer = face("journalctl", *arguments)
    assert (answer.code, answer.err) == (1, said)


def test_what_earlyoom_did_stands_in_the_journal(face: Face, tmp_path: Path) -> None:
    """The limits that were met, the victim's short name, and that it ended."""
    root = tmp_path / "a home" / "spark-a0"
    killer.report(root, killer.Limits(1.62, 100), "VLLM::Worker_TP0", 3412)
    told = [line.partition(" spark-a0 ")[2] for line in face("journalctl", "-n3").out.splitlines()]
    assert told[0] == "earlyoom[912]: low memory! at or below SIGTERM limits: mem  1.62%, swap 100.00%"
    assert told[1].startswith("earlyoom[912]: sending SIGTERM to process ")
    assert told[1].endswith('uid 0 "VLLM::Worker_TP": badness 1010, VmRSS 3412 MiB')
    assert told[2] == "earlyoom[912]: process exited after 0.6 seconds"
    assert "earlyoom" not in face("journalctl", "-k").out


def test_a_journal_may_be_read_from_a_moment_on(face: Face, tmp_path: Path) -> None:
    """What came before stays out, in both forms of the moment; nothing at all is told in journalctl's words."""
    noted = ((1_790_000_000.5, "first"), (1_790_000_060.0, "second"))
    journal.note(tmp_path / "a home" / "spark-a0", *(journal.Note(at, "kernel", text) for at, text in noted))
    for moment in ("@1790000001", "2026-09-21 14:13:21 UTC"):
        told = face("journalctl", "--since", moment, "-b", "--no-pager").out
        assert "second" in told
        assert "first" not in told
    assert face("journalctl", "--since=@9999999999").out == "-- No entries --\n"


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("", None),
        ("/usr/bin/nohang --monitor", None),
        ("earlyoom", (10, 10)),
        ("/usr/bin/earlyoom -r 3600 -m 12 -s 100", (12, 100)),
        ("earlyoom -m 12,6", (12, 10)),
        ("earlyoom -M 2097152,1048576 -s 100", (1.6435, 100)),
    ],
)
def test_a_killer_is_read_from_its_command_line(command: str, wanted: tuple[float, float] | None) -> None:
    """Per cent of memory and of swap that are left; whatever is not earlyoom ends nobody here."""
    found = killer.limits(command, TOTAL_KIB)
    assert found == (None if wanted is None else pytest.approx(wanted, abs=1e-3))


def test_a_killer_waits_for_memory_and_swap() -> None:
    """Free swap holds it back unless it was told otherwise."""
    assert killer.strikes(killer.Limits(12, 100), 12, 100)
    assert not killer.strikes(killer.Limits(12, 100), 12.1, 100)
    assert not killer.strikes(killer.Limits(12, 10), 5, 100)


def test_sudo_may_want_a_password(tmp_path: Path) -> None:
    """Even what is allowed elsewhere is refused, in sudo's words."""
    told = with_node(named("healthy"), "spark-a0", Traits(sudo_fault="password"))
    asked = furnished(tmp_path / "n", told)(
        "sudo", "-n", "sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"
    )
    assert (asked.code, asked.err) == (1, "sudo: a password is required\n")


def test_sudo_may_be_slow(tmp_path: Path) -> None:
    """It has not answered when a healthy one long has."""
    told = with_node(named("healthy"), "spark-a0", Traits(sudo_fault="slow"))
    furnished(tmp_path / "n", told)
    slow = subprocess.Popen([tmp_path / "n" / "spark-a0" / "bin" / "sudo", "-n", "true"])
    with slow:
        with pytest.raises(subprocess.TimeoutExpired):
            slow.wait(0.5)
        slow.kill()


@pytest.mark.parametrize("verb", ["wait", "kill"])
def test_docker_knows_what_is_not_there(face: Face, verb: str) -> None:
    """No such container, and 1."""
    said = face("docker", verb, "nope")
    assert (said.code, said.out, said.err) == (
        1,
        "",
        "Error response from daemon: No such container: nope\n",
    )
