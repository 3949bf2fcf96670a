"""The nodes over real SSH: OpenSSH, Fabric and Ansible, with strict host keys."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fabric
import paramiko
import pytest

from rehearsal import cluster
from rehearsal.scenario import Traits, named
from rehearsal.sshd import OTHER_USER

from .conftest import Line, raised, with_node

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def shut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """A cluster none of whose nodes lets its controller do its work, each for another reason."""
    told = named("healthy")
    told = with_node(told, "spark-a0", Traits(ssh_fault="refused"))
    told = with_node(told, "spark-a1", Traits(ssh_fault="other-host-key"))
    told = with_node(told, "spark-a2", Traits(ssh_fault="other-user"))
    told = with_node(told, "spark-a3", Traits(ssh_fault="no-python"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "named", lambda _name: told)
        with raised(tmp_path_factory.mktemp("shut"), "healthy") as running:
            yield running


def test_every_node_answers_over_openssh_with_strict_keys(line: Line) -> None:
    """A command's output, errors and exit code come back whole; stdin arrives; nodes differ."""
    for name in line.cluster.nodes:
        said = line.ssh(name, "hostname; cat; echo wrong >&2; exit 7", stdin="fed\n")
        assert (said.code, said.out, said.err) == (7, f"{name}\nfed\n", "wrong\n")
    big = line.ssh("spark-a0", "head -c 3000000 /dev/zero | tr '\\0' 'x'")
    assert len(big.out) == 3_000_000


def test_a_stranger_is_not_let_in(line: Line, tmp_path: Path) -> None:
    """Another key is refused."""
    key = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    host = line.hosts["spark-a0"]
    client = paramiko.SSHClient()
    client.load_host_keys(line.vars["known_hosts"])
    with client, pytest.raises(paramiko.AuthenticationException):
        client.connect(
            host["ansible_host"],
            port=host["ansible_port"],
            username="spark",
            key_filename=str(key),
            allow_agent=False,
            look_for_keys=False,
        )


def test_the_right_key_under_another_name_is_not_let_in(line: Line) -> None:
    """A user that the node does not know is refused in OpenSSH's words, the one that it knows afterwards is not."""
    for user in ("root", "operator", "Spark"):
        said = line.ssh("spark-a0", "hostname", user=user)
        assert (said.code, said.out) == (255, "")
        assert said.err.endswith(f"{user}@127.0.77.1: Permission denied (publickey).\n")
    assert line.ssh("spark-a0", "hostname").out == "spark-a0\n"


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("spark-a0", "Connection refused"),
        ("spark-a1", "REMOTE HOST IDENTIFICATION HAS CHANGED"),
        ("spark-a1", "Host key verification failed."),
        ("spark-a2", "spark@127.0.77.3: Permission denied (publickey)."),
    ],
)
def test_a_shut_node_says_why(shut: Line, node: str, said: str) -> None:
    """The cluster is up although a node refuses; ssh ends with 255 and the reason."""
    answer = shut.ssh(node, "hostname")
    assert (answer.code, answer.out) == (255, "")
    assert said in answer.err


def test_a_shut_node_is_otherwise_sound(shut: Line) -> None:
    """The other user is let in, and a node without the inventory's Python answers all the same."""
    assert shut.ssh("spark-a2", "hostname", user=OTHER_USER).out == "spark-a2\n"
    asked = shut.ssh(
        "spark-a3", f"hostname; {shut.hosts['spark-a3']['ansible_python_interpreter']} --version"
    )
    assert (asked.code, asked.out) == (127, "spark-a3\n")
    assert "not found" in asked.err


def test_fabric_works_with_strict_known_hosts(line: Line) -> None:
    """Four connections with RejectPolicy, one after another."""
    for name, host in line.hosts.items():
        connection = fabric.Connection(
            host["ansible_host"],
            user="spark",
            port=host["ansible_port"],
            connect_kwargs={
                "key_filename": line.vars["ansible_ssh_private_key_file"],
                "allow_agent": False,
                "look_for_keys": False,
            },
        )
        connection.client.load_host_keys(line.vars["known_hosts"])
        connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        with connection:
            said = connection.run("hostname; uname -m", hide=True, in_stream=False)
        assert said.stdout == f"{name}\naarch64\n"


def test_ansible_works_with_pipelining_and_strict_keys(line: Line) -> None:
    """A real playbook with raw and command tasks runs on all four nodes."""
    home = line.cluster.home
    play = home / "play.yml"
    play.write_text(
        "- hosts: line_a\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.raw: uname -r\n      register: kernel\n"
        "    - ansible.builtin.command: {argv: [cat, /proc/meminfo]}\n      register: memory\n"
        "    - ansible.builtin.assert:\n"
        "        that: [\"'nvidia' in kernel.stdout\", \"'127600412' in memory.stdout_lines[0]\"]\n",
        encoding="utf-8",
    )
    common = f'-o StrictHostKeyChecking=yes -o UserKnownHostsFile="\\"{line.vars["known_hosts"]}\\"" -o ControlPersist=5s'
    ran = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(line.cluster.inventory), str(play)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_HOST_KEY_CHECKING": "1",
            "ANSIBLE_SSH_COMMON_ARGS": common,
            "ANSIBLE_FORKS": "4",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("failed=0") == 4
